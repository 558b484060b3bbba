/* tracer HOW PID MILLISECONDS: holds a process as a debugger does.
 *   trace          attaches, which stops the process
 *   trace-stopped  stops it with SIGSTOP first and then attaches
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count != 4) return 2;
    pid_t pid = atoi(arguments[2]);
    int stopped = !strcmp(arguments[1], "trace-stopped"), status;
    if (stopped) {
        kill(pid, SIGSTOP);
        usleep(50000);
    }
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL)) {
        perror("tracer: attach");
        return 1;
    }
    waitpid(pid, &status, __WALL);
    usleep(1000 * atoi(arguments[3]));
    if (ptrace(PTRACE_DETACH, pid, NULL, NULL)) {
        perror("tracer: detach");
        return 1;
    }
    if (stopped) kill(pid, SIGCONT);
    return 0;
}
