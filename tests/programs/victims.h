/* Processes that are there to be killed; those that are spawned count on from the ranks that have spawned them. To be
 * included after diary.h. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { VICTIM_TAG = 8 };

/* The victim waits for its death in MPI: a process that sends it the first message needs an answer before. */
static void wait_to_die(MPI_Comm comm, int rank) {
    int never, flag;
    MPI_Request from_itself;
    MPI_Irecv(&never, 1, MPI_INT, rank, VICTIM_TAG, comm, &from_itself);
    for (;;) {
        MPI_Test(&from_itself, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
}

/* Spawns so many victims that run the same program, whether or not there are as many slots. Between both sides the scope is
 * local, whatever the default. */
static MPI_Comm spawn_victims(char **arguments, int victims, MPI_Comm comm) {
    MPI_Comm inter;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "map_by", "slot:oversubscribe");
    MPI_Comm_spawn(arguments[0], arguments + 1, victims, info, 0, comm, &inter, MPI_ERRCODES_IGNORE);
    MPI_Info_set(info, "mpix_error_scope", "local");
    MPI_Comm_set_info(inter, info);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Info_free(&info);
    return inter;
}

/* One that was spawned does not return: it lives until it is killed. */
static void be_victim_if_spawned(const char *folder) {
    int size;
    MPI_Comm parents;
    if (!getenv("OMPI_PARENT_PORT")) return;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_get_parent(&parents);
    MPI_Comm_remote_size(parents, &size);
    world_rank += size;
    open_diary(folder);
    event("ready");
    wait_to_die(MPI_COMM_SELF, 0);
}
