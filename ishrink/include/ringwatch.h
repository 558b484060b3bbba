/* Operations on communicators that do not block, and checkpoints, for Open MPI 5.0: link with -lringwatch before -lmpi (mpicc -lringwatch does), or preload
 * libringwatch.so.  Open MPI 6 has MPIX_Comm_ishrink itself. */
#ifndef RINGWATCH_H
#define RINGWATCH_H

#include <mpi.h>
#include <mpi-ext.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef OMPI_HAVE_MPIX_COMM_ISHRINK
/* Starts to make a communicator of the living members of COMM, which must be an intracommunicator and may be revoked.
 * *NEWCOMM is MPI_COMM_NULL until the operation has completed; until then it must stay where it is, and COMM must not be
 * freed.  Any number may be under way at once, on COMM as well, which may be used for everything else meanwhile, and
 * further members may die.  The request cannot be cancelled; when it is freed early the operation
 * goes on.  What is under way at MPI_Finalize is dropped there, once all processes have come to it. */
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
#endif

/* MPI_Comm_spawn, MPI_Comm_accept and MPI_Comm_connect without blocking, with the same arguments and a request that is as
 * that of MPIX_Comm_ishrink.  *INTERCOMM is MPI_COMM_NULL and ERRCODES undefined until the operation has completed.  They
 * are begun in the same order at all members of COMM, also with those of collective operations.  An error is the
 * request's, and the error handler of COMM is called when it is tested or waited for: MPI_ERR_SPAWN or MPI_ERR_PORT, or
 * MPIX_ERR_PROC_FAILED if a process is dead that takes part.  To revoke COMM ends what accepts and connects with
 * MPIX_ERR_REVOKED.  Progress is made in the calls of MPI of every member. */
int MPIX_Comm_ispawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                     MPI_Comm *intercomm, int errcodes[], MPI_Request *request);
int MPIX_Comm_iaccept(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
                      MPI_Request *request);
int MPIX_Comm_iconnect(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
                       MPI_Request *request);
int PMPIX_Comm_ispawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                      MPI_Comm *intercomm, int errcodes[], MPI_Request *request);
int PMPIX_Comm_iaccept(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
                       MPI_Request *request);
int PMPIX_Comm_iconnect(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
                        MPI_Request *request);

/* Checkpoints of a rank: memory of the program, in a file per rank and version.  The MCA parameter hook_ringwatch_checkpoints
 * names the folder, which all nodes see.  All functions return MPI_SUCCESS or an error class, and call no error handler.
 * In a job under message logging each rank saves when it likes, and a replacement of a rank that has died restores its
 * last whole version.  In any other job all ranks restore together, and save a version at the same point of the program. */
#define RW_CHECKPOINT_NONE (-1)

/* Begins, once, after MPI_Init.  MPI_ERR_NO_SUCH_FILE without a folder: nothing is saved then, and every other function
 * returns MPI_ERR_OTHER. */
int RW_Checkpoint_begin(void);
/* COUNT items of DATATYPE, which has no gaps (else MPI_ERR_TYPE), from ADDRESS on belong to the checkpoints as number ID.
 * Before the restore point only (else MPI_ERR_OTHER).  The memory stays where it is until the end. */
int RW_Checkpoint_register(int id, void *address, MPI_Count count, MPI_Datatype datatype);
/* The restore point, once, before the main loop: *VERSION is the version that the registered memory has been filled with,
 * or RW_CHECKPOINT_NONE if there is none and the memory is as it was.  What the program has done before, it does again
 * before it comes here.  MPI_ERR_ARG if other sizes are registered than were saved.  Without message logging all ranks of
 * MPI_COMM_WORLD call it, and restore the newest version that all have.  Under message logging no request may be under way
 * (else MPI_ERR_REQUEST). */
int RW_Checkpoint_restore(int *version);
/* Saves the registered memory as VERSION, a number of 0 or more that is higher than all before (else MPI_ERR_ARG).  It is on
 * disk when the function returns MPI_SUCCESS; MPI_ERR_NO_SPACE or MPI_ERR_IO if it cannot be written: then the version before
 * counts.  A checkpoint costs room for the last two versions.  Under message logging no request may be under way (else
 * MPI_ERR_REQUEST), communicators are made before the restore point (else MPI_ERR_COMM), and a replacement that repeats its
 * past saves nothing, with MPI_SUCCESS. */
int RW_Checkpoint_save(int version);
/* Ends, once, before MPI_Finalize, at all ranks; nothing is saved any more.  Where KEEP is 0 the files go: under message logging
 * at the end of the job, since a rank may die until then. */
int RW_Checkpoint_end(int keep);

#ifdef __cplusplus
}
#endif

#endif
