/* MPIX_Comm_ishrink for Open MPI 5.0: link with -lringwatch before -lmpi (mpicc -lringwatch does), or preload
 * libringwatch.so.  Open MPI 6 has the function itself. */
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
 * freed.  Any number may be under way at once, and further members may die meanwhile.  The request cannot be cancelled;
 * when it is freed early the operation goes on.  What is under way at MPI_Finalize is dropped there, once all processes
 * have come to it. */
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
#endif

#ifdef __cplusplus
}
#endif

#endif
