/* slow_words: a library to preload with which ringwatch's sentences to the user take their time. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int descriptor, const void *bytes, size_t length)
{
    const char begin[] = "ringwatch: ";
    if (descriptor == STDERR_FILENO && length > strlen(begin) && !memcmp(bytes, begin, strlen(begin))) usleep(300000);
    return syscall(SYS_write, descriptor, bytes, length);
}
