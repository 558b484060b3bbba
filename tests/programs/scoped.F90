! scoped: what scoped.c does, for one operation (recv or allreduce), with the victim inside or outside, in Fortran.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   scoped --events DIR --scope SCOPE --how set --victim-is WHERE OP
#include "bindings.h"
program scoped
#if BINDING == 3
    use mpi_f08
#elif BINDING == 2
    use mpi
#endif
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none
#if BINDING == 1
    include 'mpif.h'
#endif
    interface
        integer(c_int) function usleep(microseconds) bind(c, name='usleep')
            import :: c_int
            integer(c_int), value :: microseconds
        end function
    end interface
    character(len=512) :: dir, scope, how, place, operation
    COMM_TYPE :: comm
    INFO_TYPE :: info
    REQUEST_TYPE :: from_victim
    STATUS_TYPE :: status
    integer :: rank, ranks, victim, code, class, error, unit, color, value, never, total, peer
    logical :: done

    call get_command_argument(2, dir)
    call get_command_argument(4, scope)
    call get_command_argument(6, how)
    call get_command_argument(8, place)
    call get_command_argument(9, operation)
    call MPI_Init(error)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call open_diary()
    call event('started', getpid(), -1)
    victim = ranks - 1
    color = MPI_UNDEFINED
    if (rank < victim .or. place == 'inside') color = 1
    call MPI_Comm_split(MPI_COMM_WORLD, color, rank, comm, error)
    call MPI_Irecv(never, 1, MPI_INTEGER, victim, 9, MPI_COMM_WORLD, from_victim, error)
    call MPI_Barrier(MPI_COMM_WORLD, error)
    if (rank == victim) then
        do
            error = usleep(100000)
        end do
    end if
    call MPI_Info_create(info, error)
    call MPI_Info_set(info, 'mpix_error_scope', trim(scope), error)
    call MPI_Comm_set_info(comm, info, error)
    call MPI_Info_free(info, error)
    value = 1
    code = MPI_SUCCESS
    call event('blocked', 0, -1)
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
    call event('result', 0, class)
    if (rank > 0) call wait_for_death()
    call MPI_Finalize(error)
    call event('finalized', error, -1)

contains

    subroutine wait_for_death()
        done = .false.
        do while (.not. done)
            call MPI_Test(from_victim, done, status, error)
            if (error /= MPI_SUCCESS) exit
            error = usleep(200)
        end do
    end subroutine

    subroutine open_diary()
        character(len=12) :: number
        write (number, '(i0)') rank
        open (newunit=unit, file=trim(dir)//'/rank.'//trim(number), position='append')
    end subroutine

    ! system_clock reads CLOCK_MONOTONIC in nanoseconds.
    subroutine event(name, first, second)
        character(len=*), intent(in) :: name
        integer, intent(in) :: first, second
        integer(int64) :: now
        call system_clock(now)
        if (second < 0) then
            write (unit, '(i0,1x,i0,1x,a,1x,i0)') rank, now, name, first
        else
            write (unit, '(i0,1x,i0,1x,a,1x,i0,1x,i0)') rank, now, name, first, second
        end if
        flush (unit)
    end subroutine
end program
