/* Spawns two processes on a host and has all of them meet: elsewhere HOST */
#include <mpi.h>

int main(int count, char **arguments) {
    MPI_Comm parent, both, all;
    MPI_Init(&count, &arguments);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Info where;
        MPI_Info_create(&where);
        MPI_Info_set(where, "host", arguments[1]);
        MPI_Comm_spawn(arguments[0], MPI_ARGV_NULL, 2, where, 0, MPI_COMM_WORLD, &both, MPI_ERRCODES_IGNORE);
        MPI_Info_free(&where);
    }
    MPI_Intercomm_merge(parent == MPI_COMM_NULL ? both : parent, parent != MPI_COMM_NULL, &all);
    MPI_Barrier(all);
    MPI_Finalize();
    return 0;
}
