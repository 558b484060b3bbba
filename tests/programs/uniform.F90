! uniform: what uniform.c does, for one operation (bcast, scan, ireduce or dup), in Fortran; the victim is the last rank.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   uniform --events DIR --uniform VALUE --how set --seed NUMBER OP
#include "bindings.h"
program uniform
#include "fortran_begin.h"
    character(len=512) :: uniformity, seed, operation
    COMM_TYPE :: comm, made
    INFO_TYPE :: info
    REQUEST_TYPE :: request
    integer :: victim, calls, last_call, class, next_class, never, sent, got

    call get_command_argument(4, uniformity)
    call get_command_argument(8, seed)
    call get_command_argument(9, operation)
    read (seed, *) last_call
    last_call = mod(last_call, 8)
    call begin()
    victim = ranks - 1
    call MPI_Comm_split(MPI_COMM_WORLD, 0, rank, comm, error)
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
            call MPI_Bcast(sent, 1, MPI_INTEGER, 0, comm, code)
        case ('scan')
            call MPI_Scan(sent, got, 1, MPI_INTEGER, MPI_SUM, comm, code)
        case ('ireduce')
            call MPI_Ireduce(sent, got, 1, MPI_INTEGER, MPI_SUM, 0, comm, request, code)
            if (code == MPI_SUCCESS) call MPI_Wait(request, status, code)
        case default
            call MPI_Comm_dup(comm, made, code)
            if (code == MPI_SUCCESS) call MPI_Comm_free(made, error)
        end select
        call MPI_Error_class(code, one_call, error)
    end function

#include "fortran_diary.h"
end program
