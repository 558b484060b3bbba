! As logged.c, in Fortran: receives from any source, a split, and collective operations with and without blocking, also in place.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   logged FOLDER VICTIM STEP    rank VICTIM kills itself in its step STEP, once: a file in FOLDER says so
#include "bindings.h"
#if BINDING == 3
#define SENDER status%MPI_SOURCE
#else
#define SENDER status(MPI_SOURCE)
#endif
program logged
#if BINDING == 3
    use mpi_f08
#elif BINDING == 2
    use mpi
#endif
    use, intrinsic :: iso_c_binding
    implicit none
#if BINDING == 1
    include 'mpif.h'
#endif
    interface
        integer(c_int) function c_raise(signal) bind(c, name='raise')
            import :: c_int
            integer(c_int), value :: signal
        end function
    end interface
    integer, parameter :: results = 100, rounds = 40
    COMM_TYPE :: half
    REQUEST_TYPE :: requests(3)
    STATUS_TYPE :: status
#if BINDING == 3
    type(MPI_Status) :: statuses(3)
#else
    integer :: statuses(MPI_STATUS_SIZE, 3)
#endif
    integer :: rank, ranks, error, victim, last, steps, i, next, total, value, peer, source, length
    double precision :: mine, all, doubled, given
    character(len=512) :: dir, word

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call get_command_argument(1, dir)
    call get_command_argument(2, word)
    read (word, *) victim
    call get_command_argument(3, word)
    read (word, *) last
    steps = 0

    ! Whose result comes first depends on time; the sum does not.
    total = 0
    if (rank == 0) then
        do i = 1, results * (ranks - 1)
            call step()
            call MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, status, error)
            call MPI_Get_count(status, MPI_INTEGER, length, error)
            source = SENDER
            call MPI_Recv(value, length, MPI_INTEGER, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
            total = total + value
        end do
        print '(a, i0)', 'sum ', total
    else
        do i = 1, results
            call step()
            value = rank * i
            call MPI_Send(value, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, error)
        end do
    end if

    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, error)
    next = mod(rank + 1, ranks)
    peer = mod(rank + ranks - 1, ranks)
    mine = rank + 0.1d0
    do i = 1, rounds
        call step()
        call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, half, error)
        doubled = 2 * mine
        call MPI_Iallreduce(MPI_IN_PLACE, doubled, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, requests(1), error)
        call MPI_Irecv(given, 1, MPI_DOUBLE_PRECISION, peer, 2, MPI_COMM_WORLD, requests(2), error)
        call MPI_Isend(all, 1, MPI_DOUBLE_PRECISION, next, 2, MPI_COMM_WORLD, requests(3), error)
        call MPI_Waitall(3, requests, statuses, error)
        mine = (mine + given / ranks + doubled / 8) / 2
    end do
    call MPI_Comm_free(half, error)
    call MPI_Reduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
    if (rank == 0) print '(a, z16.16)', 'end ', transfer(all, 0_c_int64_t)
    call MPI_Finalize(error)

contains

    subroutine step()
        character(len=600) :: name
        integer :: unit, code
        steps = steps + 1
        if (rank /= victim .or. steps /= last) return
        write (name, '(2a, i0)') trim(dir), '/fortran.', steps
        open (newunit=unit, file=trim(name), status='new', action='write', iostat=code)
        if (code /= 0) return
        close (unit)
        code = c_raise(9)
    end subroutine
end program
