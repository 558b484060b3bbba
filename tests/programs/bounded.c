/* Rank 0 sends, the others receive. Each process writes how many messages it has sent or received into a file of its own; one process
 * stops itself before a message. At the end each writes the most memory that it has had, in KiB.
 *
 *   bounded FOLDER MESSAGES BYTES PROCESS MESSAGE
 */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A file of this process with one number, which readers see whole. */
static void tell(const char *folder, const char *name, const char *process, long number)
{
    char path[4096], text[32];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, process);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    snprintf(text, sizeof text, "%12ld\n", number);
    if (file < 0 || pwrite(file, text, strlen(text), 0) < 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    close(file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, messages = atoi(argv[2]), bytes = atoi(argv[3]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *process = getenv("PMIX_RANK");
    unsigned char *data = calloc(bytes, 1);
    unsigned long sum = 0;
    for (int i = 0; i < messages; i++) {
        if (strcmp(process, argv[4]) == 0 && i == atoi(argv[5])) {
            raise(SIGSTOP);
        }
        if (rank == 0) {
            memset(data, i, bytes);
            for (int to = 1; to < size; to++) {
                MPI_Send(data, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
            }
        } else {
            MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += data[bytes / 2];
        }
        tell(argv[1], "messages", process, i + 1);
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    tell(argv[1], "most", process, used.ru_maxrss);
    printf("rank %d: %lu\n", rank, sum);
    MPI_Finalize();
    return 0;
}
