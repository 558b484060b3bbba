! ishrinks: what ishrinks.c does with its requests completed by MPI_Waitall, in Fortran.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   ishrinks --events DIR waitall COUNT SECOND THIRD
#include "bindings.h"
program ishrinks
#if BINDING == 3
    use mpi_f08
    use mpi_f08_ext
#elif BINDING == 2
    use mpi
    use mpi_ext
#endif
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none
#if BINDING == 1
    include 'mpif.h'
#endif
#if BINDING == 3
    include 'ringwatchf08.h'
#else
    include 'ringwatchf.h'
#endif
    interface
        integer(c_int) function c_usleep(microseconds) bind(c, name='usleep')
            import :: c_int
            integer(c_int), value :: microseconds
        end function
        integer(c_int) function c_raise(signal) bind(c, name='raise')
            import :: c_int
            integer(c_int), value :: signal
        end function
    end interface
    character(len=512) :: dir
    character(len=6), dimension(0:2), parameter :: scopes = ['local ', 'group ', 'global']
    COMM_TYPE :: calm
    COMM_TYPE, dimension(16) :: comms
    COMM_TYPE, dimension(16), asynchronous :: next
    INFO_TYPE :: info
    REQUEST_TYPE :: from_victim
    REQUEST_TYPE, dimension(16) :: requests
    STATUS_TYPE :: status
    integer :: rank, ranks, second, shrinks, error, unit, i, never, one, total, members, works
    logical :: done

    call get_command_argument(2, dir)
    shrinks = argument(4)
    second = argument(5)
    call MPI_Init(error)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call open_diary()
    call event('started', getpid())
    call MPI_Comm_dup(MPI_COMM_WORLD, calm, error)
    do i = 1, shrinks
        call MPI_Info_create(info, error)
        call MPI_Info_set(info, 'mpix_error_scope', trim(scopes(mod(i - 1, 3))), error)
        call MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, comms(i), error)
        call MPI_Info_free(info, error)
    end do
    call MPI_Irecv(never, 1, MPI_INTEGER, ranks - 1, 9, calm, from_victim, error)
    call MPI_Barrier(calm, error)
    call event('blocked', 0)
    do while (rank == ranks - 1)
        error = c_usleep(100000)
    end do
    done = .false.
    do while (.not. done)
        call MPI_Test(from_victim, done, status, error)
        if (error /= MPI_SUCCESS) exit
        error = c_usleep(100)
    end do

    do
        do i = 1, shrinks
            call MPIX_Comm_ishrink(comms(i), next(i), requests(i), error)
            if (error /= MPI_SUCCESS) call event('wrong', error)
            if (next(i) /= MPI_COMM_NULL) call event('wrong', i)
        end do
        if (rank == second) then
            call MPI_Test(requests(shrinks), done, status, error)
            error = c_raise(9)
        end if
        call MPI_Waitall(shrinks, requests, MPI_STATUSES_IGNORE, error)
        if (error /= MPI_SUCCESS) call event('wrong', error)
        ! A member may have died too late for the agreement: then once more, all together.
        works = 1
        do i = 1, shrinks
            call MPIX_Comm_agree(next(i), works, error)
            if (error /= MPI_SUCCESS) works = 0
        end do
        do i = 1, shrinks
            if (works == 0) exit
            one = 1
            total = 0
            call MPI_Comm_size(next(i), members, error)
            call MPI_Allreduce(one, total, 1, MPI_INTEGER, MPI_SUM, next(i), error)
            if (error /= MPI_SUCCESS .or. total /= members) works = 0
            if (works == 0) call MPIX_Comm_revoke(next(i), error)
        end do
        call MPIX_Comm_agree(next(1), works, error)
        comms(1:shrinks) = next(1:shrinks)
        if (error == MPI_SUCCESS .and. works == 1) exit
    end do
    do i = 1, shrinks
        call describe(i - 1, comms(i))
    end do
    call MPI_Finalize(error)
    call event('finalized', error)

contains

    integer function argument(index)
        integer, intent(in) :: index
        character(len=12) :: text
        call get_command_argument(index, text)
        read (text, *) argument
    end function

    subroutine describe(number, comm)
        integer, intent(in) :: number
        COMM_TYPE, intent(in) :: comm
        character(len=MPI_MAX_INFO_VAL) :: scope
        integer(int64) :: now
        logical :: found
        call MPI_Comm_size(comm, members, error)
        call MPI_Comm_get_info(comm, info, error)
        call MPI_Info_get(info, 'mpix_error_scope', MPI_MAX_INFO_VAL, scope, found, error)
        call MPI_Info_free(info, error)
        call system_clock(now)
        write (unit, '(i0,1x,i0,1x,a,1x,i0,1x,i0,1x,a)') rank, now, 'shrunk', number, members, trim(scope)
        flush (unit)
    end subroutine

    subroutine open_diary()
        character(len=12) :: number
        write (number, '(i0)') rank
        open (newunit=unit, file=trim(dir)//'/rank.'//trim(number), position='append')
    end subroutine

    ! system_clock reads CLOCK_MONOTONIC in nanoseconds.
    subroutine event(name, first)
        character(len=*), intent(in) :: name
        integer, intent(in) :: first
        integer(int64) :: now
        call system_clock(now)
        write (unit, '(i0,1x,i0,1x,a,1x,i0)') rank, now, name, first
        flush (unit)
    end subroutine
end program
