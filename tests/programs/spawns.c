/* spawns: waits for a death, unless the case is one without, and spawns in place of the dead.
 *
 *   spawns --events DIR --case CASE
 *
 *   CASE   dead: as many as have died. host: one, on the host h2. bad: one with a directive that the runtime does not know, and
 *          nobody has died. many: rank 0 alone spawns 5,000 on its host that are no programs with MPI, and nobody has died.
 *
 * Each of the first job writes a diary: "ready", "spawned CLASS", "sum CLASS N" of all that there are then, "finalized CLASS"; each
 * that is spawned begins one, as rank 100 and so on.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "diary.h"

enum { MANY = 5000, FIRST_NUMBER = 100 };

static void count(MPI_Comm comm) {
    int one = 1, sum = -1;
    int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    event("sum %d %d", class_of(code), sum);
}

int main(int argc, char **argv) {
    MPI_Comm parent, comm = MPI_COMM_WORLD, inter = MPI_COMM_NULL, whole;
    int before, size;
    MPI_Info info;
    MPI_Init(&argc, &argv);
    const char *kind = argv[4];
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (parent != MPI_COMM_NULL) {
        world_rank += FIRST_NUMBER;
        open_diary(argv[2]);
        MPI_Intercomm_merge(parent, 1, &whole);
        count(whole);
        MPI_Finalize();
        return 0;
    }
    open_diary(argv[2]);
    MPI_Barrier(comm);
    event("ready");
    MPI_Comm_size(comm, &before);
    int dead = 1, root = 0;
    if (!strcmp(kind, "dead") || !strcmp(kind, "host")) {
        while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS) continue;
        MPIX_Comm_revoke(MPI_COMM_WORLD);
        MPIX_Comm_shrink(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        MPI_Comm_size(comm, &size);
        if (!strcmp(kind, "dead")) dead = before - size;
    }
    MPI_Info_create(&info);
    char *program = argv[0], **arguments = argv + 1;
    if (!strcmp(kind, "host")) MPI_Info_set(info, "host", "h2");
    if (!strcmp(kind, "bad")) MPI_Info_set(info, "pmix.mapby", ":display");
    if (!strcmp(kind, "many")) {
        MPI_Info_set(info, "ompi_non_mpi", "true");
        MPI_Info_set(info, "map_by", "slot:oversubscribe");
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        root = world_rank;
        dead = MANY;
        program = "/bin/true";
        arguments = MPI_ARGV_NULL;
    }
    if (root == 0) {
        MPI_Comm spawner = strcmp(kind, "many") ? comm : MPI_COMM_SELF;
        int code = MPI_Comm_spawn(program, arguments, dead, info, root, spawner, &inter, MPI_ERRCODES_IGNORE);
        event("spawned %d", class_of(code));
    }
    whole = comm;
    if (inter != MPI_COMM_NULL) MPI_Intercomm_merge(inter, 0, &whole);
    count(whole);
    event("finalized %d", class_of(MPI_Finalize()));
    return 0;
}
