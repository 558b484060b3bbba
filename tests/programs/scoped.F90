! scoped: what scoped.c does, for one operation (recv or allreduce), with the victim inside or outside, in Fortran.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   scoped --events DIR --scope SCOPE --how set --victim-is WHERE OP
#include "bindings.h"
program scoped
#include "fortran_begin.h"
    character(len=512) :: scope, how, place, operation
    COMM_TYPE :: comm
    INFO_TYPE :: info
    integer :: victim, code, class, color, value, never, total, peer

    call get_command_argument(4, scope)
    call get_command_argument(6, how)
    call get_command_argument(8, place)
    call get_command_argument(9, operation)
    call begin()
    victim = ranks - 1
    color = MPI_UNDEFINED
    if (rank < victim .or. place == 'inside') color = 1
    call MPI_Comm_split(MPI_COMM_WORLD, color, rank, comm, error)
    call MPI_Irecv(never, 1, MPI_INTEGER, victim, 9, MPI_COMM_WORLD, from_victim, error)
    call MPI_Barrier(MPI_COMM_WORLD, error)
    if (rank == victim) then
        do
            error = c_usleep(100000)
        end do
    end if
    call MPI_Info_create(info, error)
    call MPI_Info_set(info, 'mpix_error_scope', trim(scope), error)
    call MPI_Comm_set_info(comm, info, error)
    call MPI_Info_free(info, error)
    value = 1
    code = MPI_SUCCESS
    call event('blocked', [0])
    if (rank == 0) call wait_for_death()
    if (operation == 'allreduce') then
        call MPI_Allreduce(value, total, 1, MPI_INTEGER, MPI_SUM, comm, code)
    else if (rank > 0) then
        call MPI_Recv(value, 1, MPI_INTEGER, 0, 7, comm, status, code)
    else
        do peer = 1, victim - 1
            call MPI_Send(value, 1, MPI_INTEGER, peer, 7, comm, error)
            if (code == MPI_SUCCESS) code = error
        end do
    end if
    call MPI_Error_class(code, class, error)
    call event('result', [0, class])
    if (rank > 0) call wait_for_death()
    call MPI_Finalize(error)
    call event('finalized', [error])

contains

#include "fortran_diary.h"
end program
