/* Operations on communicators that do not block, for Open MPI 5.0: link with -lringwatch before -lmpi (mpicc -lringwatch does), or preload
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

#ifdef __cplusplus
}
#endif

#endif
