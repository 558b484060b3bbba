! ispawns: what ispawns.c does in some of its cases, in Fortran.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   ispawns --events DIR --case CASE --how HOW --victim -1
!
! CASE is one, bad or connect, or plain: who is spawned gets no arguments. HOW is wait or test.
#define WITH_RINGWATCH
#include "bindings.h"
program ispawns
#include "fortran_begin.h"
    integer, parameter :: size = 4
    character(len=512) :: program
    character(len=256), dimension(9) :: arguments
    COMM_TYPE, asynchronous :: inter
    INFO_TYPE :: info
    REQUEST_TYPE :: request
    integer, dimension(size), asynchronous :: codes
    integer :: i

    call get_command_argument(0, program)
    do i = 1, 9
        call get_command_argument(i, arguments(i))
    end do
    call begin()
    if (parents /= MPI_COMM_NULL) then
        inter = parents
        call join(.true.)
    else if (arguments(4) == 'connect') then
        call connect()
    else
        call spawn()
    end if
    call MPI_Finalize(error)
    call event('finalized', [error])

contains

    subroutine spawn()
        integer, parameter :: root = 1
        call MPI_Info_create(info, error)
        call MPI_Info_set(info, 'wdir', trim(dir), error)
        codes = -1
        select case (arguments(4))
        case ('one')
            call MPIX_Comm_ispawn(program, arguments, size, info, root, MPI_COMM_WORLD, inter, codes, request, error)
        case ('plain')
            call MPIX_Comm_ispawn(program, MPI_ARGV_NULL, size, info, root, MPI_COMM_WORLD, inter, &
                MPI_ERRCODES_IGNORE, request, error)
        case ('bad')
            call MPIX_Comm_ispawn('/nowhere', MPI_ARGV_NULL, size, MPI_INFO_NULL, root, MPI_COMM_WORLD, inter, &
                MPI_ERRCODES_IGNORE, request, error)
        end select
        if (error /= MPI_SUCCESS .or. inter /= MPI_COMM_NULL) call event('wrong', [error])
        ! The operation has a copy.
        call MPI_Info_free(info, error)
        call complete()
        if (MPI_ERRCODES_IGNORE(1) /= 0) call event('wrong', [MPI_ERRCODES_IGNORE(1)])
        call event('codes', [codes(1), codes(size)])
        if (inter /= MPI_COMM_NULL) call join(.false.)
    end subroutine

    ! The first two ranks accept, and the others connect.
    subroutine connect()
        character(len=MPI_MAX_PORT_NAME) :: port
        COMM_TYPE :: half
        integer :: token
        logical :: accepts
        accepts = rank < 2
        call MPI_Comm_split(MPI_COMM_WORLD, merge(0, 1, accepts), rank, half, error)
        call MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN, error)
        port = ''
        if (rank == 0) call MPI_Open_port(MPI_INFO_NULL, port, error)
        call MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHARACTER, 0, MPI_COMM_WORLD, error)
        token = 0
        if (accepts) then
            call MPIX_Comm_iaccept(port, MPI_INFO_NULL, 0, half, inter, request, error)
            call MPI_Recv(token, 1, MPI_INTEGER, rank + 2, 7, MPI_COMM_WORLD, status, error)
        else
#if BINDING == 3
            ! There the error code is optional.
            call MPIX_Comm_iconnect(port, MPI_INFO_NULL, 1, half, inter, request)
#else
            call MPIX_Comm_iconnect(port, MPI_INFO_NULL, 1, half, inter, request, error)
#endif
            call MPI_Send(token, 1, MPI_INTEGER, rank - 2, 7, MPI_COMM_WORLD, error)
        end if
        call complete()
        call join(.not. accepts)
    end subroutine

    subroutine complete()
        if (arguments(6) == 'wait') then
            call MPI_Wait(request, status, error)
        else
            done = .false.
            do while (.not. done)
                call MPI_Test(request, done, status, error)
                if (error /= MPI_SUCCESS) exit
            end do
        end if
        call event('completed', [error])
    end subroutine

    ! The communicator of both sides, and the sum of the numbers of all.
    subroutine join(high)
        logical, intent(in) :: high
        COMM_TYPE :: all
        integer :: members, total
        call MPI_Intercomm_merge(inter, high, all, error)
        call MPI_Comm_size(all, members, error)
        call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, all, error)
        call event('joined', [members, total])
        call MPI_Comm_free(all, error)
        call MPI_Comm_disconnect(inter, error)
    end subroutine

#include "fortran_diary.h"
end program
