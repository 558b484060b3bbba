! uniform: what uniform.c does, for one operation (bcast, scan, ireduce or dup, or
! two_bcast or two_ireduce, of two groups), in Fortran; the victim is the last rank.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   uniform --events DIR --uniform VALUE --how set --seed NUMBER OP
#include "bindings.h"
program uniform
#include "fortran_begin.h"
    character(len=512) :: uniformity, seed, operation
    COMM_TYPE :: comm, made, half
    INFO_TYPE :: info
    REQUEST_TYPE :: request
    integer :: victim, calls, last_call, class, next_class, never, sent, got, root, count, leader

    call get_command_argument(4, uniformity)
    call get_command_argument(8, seed)
    call get_command_argument(9, operation)
    read (seed, *) last_call
    last_call = mod(last_call, 8)
    call begin()
    victim = ranks - 1
    call MPI_Comm_split(MPI_COMM_WORLD, 0, rank, comm, error)
    root = 0
    count = 1
    if (operation(1:3) == 'two') then
        operation = operation(5:)
        call MPI_Comm_split(MPI_COMM_WORLD, merge(0, 1, rank < ranks / 2), 0, half, error)
        leader = merge(ranks / 2, 0, rank < ranks / 2)
        call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 7, comm, error)
        call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, error)
        if (rank == 0) root = MPI_ROOT
        if (rank > 0 .and. rank < ranks / 2) then
            root = MPI_PROC_NULL
            count = 0
        end if
    end if
    call MPI_Irecv(never, 1, MPI_INTEGER, victim, 9, MPI_COMM_WORLD, from_victim, error)
    call MPI_Info_create(info, error)
    call MPI_Info_set(info, 'mpix_error_uniform', trim(uniformity), error)
    call MPI_Comm_set_info(comm, info, error)
    call MPI_Info_free(info, error)
    call MPI_Barrier(MPI_COMM_WORLD, error)
    sent = rank
    calls = 0
    do
        if (rank == victim .and. calls == last_call) error = c_raise(9)
        class = one_call()
        if (class /= MPI_SUCCESS) exit
        calls = calls + 1
    end do
    next_class = one_call()
    call event('ended', [0, calls, class, next_class])
    call wait_for_death()
    call MPI_Finalize(error)
    call event('finalized', [error])

contains

    ! The class with which one call of the operation ends.
    integer function one_call()
        integer :: code
        select case (operation)
        case ('bcast')
            call MPI_Bcast(sent, count, MPI_INTEGER, root, comm, code)
        case ('scan')
            call MPI_Scan(sent, got, 1, MPI_INTEGER, MPI_SUM, comm, code)
        case ('ireduce')
            call MPI_Ireduce(sent, got, count, MPI_INTEGER, MPI_SUM, root, comm, request, code)
            if (code == MPI_SUCCESS) call MPI_Wait(request, status, code)
        case default
            call MPI_Comm_dup(comm, made, code)
            if (code == MPI_SUCCESS) call MPI_Comm_free(made, error)
        end select
        call MPI_Error_class(code, one_call, error)
    end function

#include "fortran_diary.h"
end program
