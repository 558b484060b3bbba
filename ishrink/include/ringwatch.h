/* Operations on communicators that do not block, checkpoints, and the group of recommended processes, for Open MPI 5.0: link
 * with -lringwatch before -lmpi (mpicc -lringwatch does), or preload libringwatch.so.  Open MPI 6 has MPIX_Comm_ishrink itself. */
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

/* The group of recommended processes, for programs that work in rounds and can be mapped anew before each.  A thread of each
 * process tests the others; who does not answer, or is slow, is not in the next round, and takes part again when it has passed
 * some tests in a row.  All functions return MPI_SUCCESS or an error class.  docs/recommended-group.md has the parameters. */
#define RW_GROUP_MEMBER 0
#define RW_GROUP_EVICTED 1 /* slow, stopped, or dead without its being known */
#define RW_GROUP_DEAD 2    /* MPI knows that it is dead */
#define RW_GROUP_LEFT 3    /* its program is complete */

/* A test: it returns the same number at all processes, and how long it takes is what a process is measured by. */
typedef long long RW_Group_test_function(void);
/* Before RW_Group_join, at all processes: has them tested by this function, which a thread of the library calls at any time.  It
 * calls neither MPI nor this library.  Without it, or with NULL, they count the primes below 1,000. */
int RW_Group_set_test(RW_Group_test_function *test);
/* Joins, once, at all processes of COMM, an intracommunicator that stays until the end; ranks are those in COMM.  All of them are
 * in the first round, which begins now.  INFO of rank 0 counts, or MPI_INFO_NULL: rw_interval and rw_addend (milliseconds),
 * rw_passes, rw_multiplier, rw_returns (true, false), rw_assignment (all, vcube).  MPI_ERR_INFO_VALUE at all processes if a value
 * cannot be used, or another key begins with rw_; MPI_ERR_OTHER if one of them has no socket; MPI_ERR_UNSUPPORTED_OPERATION before
 * MPI_Init, and under message logging or replication. */
int RW_Group_join(MPI_Comm comm, MPI_Info info);
/* Ends this process's part of the round and waits for the next, with the same members at all of them: *SIZE, and *PLACE of this
 * one among them.  Unless all members of the round have COMPLETE other than 0, and none of them was lost, the next round is the
 * same again.  A process that is not in the group waits here until it is back.  *SIZE is 0 and *PLACE is MPI_UNDEFINED when the
 * program is complete at the others: there is nothing left to do but to leave. */
int RW_Group_barrier(int complete, int *size, int *place);
/* The ranks of the members of this round, ascending: *SIZE of RW_Group_barrier, all processes in the first round. */
int RW_Group_members(int ranks[]);
/* *ROUND: how many rounds are complete.  *EPOCH: the number of this round's view, from 1; a round that is done again has another
 * one.  *BASE: the epoch of the last round that was complete, whose results count; 0 if there is none. */
int RW_Group_round(int *round, int *epoch, int *base);
/* Who takes part in this round, and did not in the one before: *COUNT ranks, at most all. */
int RW_Group_returned(int *count, int ranks[]);
/* How many members of this round have left the group since it began, back again or not.  If that is not 0, the round may not be
 * completed by all: a program gives up what it waits for and comes to the barrier. */
int RW_Group_lost(int *count);
/* What is known of a process, as above, and how often it has left the group by eviction or death: that its program is complete does
 * not count. */
int RW_Group_state(int rank, int *state, int *evictions);
/* The program is complete at this process.  Before MPI_Finalize, after which all functions here return MPI_ERR_OTHER.  Nothing is tested or answered any more, but others that do not
 * know of the end are told. */
int RW_Group_leave(void);

#ifdef __cplusplus
}
#endif

#endif
