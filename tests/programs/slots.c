/* Cuts a slot file of examples/slot_files.h at every byte, while it is written and when it is there. Each time the file of the
 * epoch before must be whole, and the cut one must count as damaged. A file that is swept away while it is written is no error of
 * the writer. Prints what is found in a whole one, and how many cuts it has made. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int then_swept(int file);
#define fsync then_swept
#include "../../examples/slot_files.h"
#undef fsync

/* Others sweep files of epochs before this one when a file is on the disk and has no name yet. */
static int sweeps;

static int then_swept(int file)
{
    int code = fsync(file);
    sweep(sweeps);
    return code;
}

enum { SLOT = 3, LENGTH = 20 };

static void require(int is_so, const char *what, long cut)
{
    if (!is_so) {
        printf("cut after %ld bytes: %s\n", cut, what);
        exit(1);
    }
}

static list numbers(int epoch)
{
    list l = make(LENGTH);
    for (int i = 0; i < LENGTH; i++) {
        l.values[i] = 1000L * epoch + i;
    }
    return l;
}

static int is_whole(int epoch)
{
    list l, expected = numbers(epoch);
    return read_slot(SLOT, epoch, &l) && l.length == LENGTH &&
           memcmp(l.values, expected.values, LENGTH * sizeof(long)) == 0;
}

/* Writes the file of epoch 2 in a process that the kernel ends at the first byte after these. True if it came to its end. */
static int writes(long bytes)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0}, most = {(rlim_t) bytes, (rlim_t) bytes};
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_FSIZE, &most);
        write_slot(SLOT, 2, numbers(2));
        _exit(0);
    }
    waitpid(child, &status, 0);
    require(WIFEXITED(status) || WTERMSIG(status) == SIGXFSZ, "the writer ended otherwise", bytes);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    char name[4096];
    list l;
    require(argc == 2, "usage: slots FOLDER", 0);
    folder = argv[1];
    write_slot(SLOT, 1, numbers(1));
    long cuts = 0;
    for (; !writes(cuts); cuts++) {
        require(is_whole(1), "the older file is not whole", cuts);
        require(!read_slot(SLOT, 2, &l), "a part of a file counts", cuts);
    }
    require(is_whole(1) && is_whole(2), "a file that was written is not whole", cuts);
    name_of(name, sizeof name, SLOT, 2);
    for (long length = cuts - 1; length >= 0; length--) {
        require(truncate(name, length) == 0, "it cannot be cut", length);
        require(!read_slot(SLOT, 2, &l) && strcmp(fault, "is damaged") == 0, "a part of a file counts", length);
    }
    sweep(2);
    require(!is_whole(1), "an old file is not swept away", 0);
    sweeps = 3;
    require(!write_slot(SLOT, 2, numbers(2)), "a file counts that was swept away while it was written", 0);
    require(!is_whole(2) && strcmp(fault, "is missing") == 0, "it is there", 0);
    sweeps = 0;
    require(write_slot(SLOT, 2, numbers(2)) && is_whole(2), "the writer does not go on", 0);
    l = input(0, LENGTH);
    qsort(l.values, LENGTH, sizeof(long), ascending);
    write_slot(0, 3, l);
    verify(1, 3, LENGTH);
    printf("%ld cuts\n", cuts);
    return 0;
}
