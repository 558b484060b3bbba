! ishrinks: what ishrinks.c does with its requests completed by MPI_Waitall, in Fortran.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   ishrinks --events DIR waitall COUNT SECOND THIRD
#define WITH_RINGWATCH
#include "bindings.h"
program ishrinks
#include "fortran_begin.h"
    character(len=6), dimension(0:2), parameter :: scopes = ['local ', 'group ', 'global']
    COMM_TYPE :: calm
    COMM_TYPE, dimension(16) :: comms
    COMM_TYPE, dimension(16), asynchronous :: next
    INFO_TYPE :: info
    REQUEST_TYPE, dimension(16) :: requests
    integer :: second, shrinks, i, never, one, total, members, works

    shrinks = argument(4)
    second = argument(5)
    call begin()
    call MPI_Comm_dup(MPI_COMM_WORLD, calm, error)
    do i = 1, shrinks
        call MPI_Info_create(info, error)
        call MPI_Info_set(info, 'mpix_error_scope', trim(scopes(mod(i - 1, 3))), error)
        call MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, comms(i), error)
        call MPI_Info_free(info, error)
    end do
    call MPI_Irecv(never, 1, MPI_INTEGER, ranks - 1, 9, calm, from_victim, error)
    call MPI_Barrier(calm, error)
    call event('blocked', [0])
    do while (rank == ranks - 1)
        error = c_usleep(100000)
    end do
    call wait_for_death()

    do
        do i = 1, shrinks
            call MPIX_Comm_ishrink(comms(i), next(i), requests(i), error)
            if (error /= MPI_SUCCESS) call event('wrong', [error])
            if (next(i) /= MPI_COMM_NULL) call event('wrong', [i])
        end do
        if (rank == second) then
            call MPI_Test(requests(shrinks), done, status, error)
            call event('dies', [merge(1, 0, done)])
            error = c_raise(9)
        end if
        call MPI_Waitall(shrinks, requests, MPI_STATUSES_IGNORE, error)
        if (error /= MPI_SUCCESS) call event('wrong', [error])
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
    call event('finalized', [error])

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
        logical :: found
        call MPI_Comm_size(comm, members, error)
        call MPI_Comm_get_info(comm, info, error)
        call MPI_Info_get(info, 'mpix_error_scope', MPI_MAX_INFO_VAL, scope, found, error)
        call MPI_Info_free(info, error)
        write (unit, '(i0,1x,i0,1x,a,1x,i0,1x,i0,1x,a)') rank, now_ns(), 'shrunk', number, members, trim(scope)
        flush (unit)
    end subroutine

#include "fortran_diary.h"
end program
