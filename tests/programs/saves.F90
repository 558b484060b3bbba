! saves: a program with checkpoints, in Fortran. Rank 1 kills itself in step 50, once: a file in FOLDER says so.
! -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
!
!   saves FOLDER
program saves
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
#if BINDING == 3
    include 'ringwatchf08.h'
#else
    include 'ringwatchf.h'
#endif
    interface
        integer(c_int) function c_raise(signal) bind(c, name='raise')
            import :: c_int
            integer(c_int), value :: signal
        end function
    end interface
    integer, parameter :: items = 100
    integer(kind=MPI_COUNT_KIND), parameter :: all_items = items, one = 1
    double precision, dimension(items), asynchronous :: field
    integer, asynchronous :: total
    integer :: rank, step, last, sum, error, unit
    character(len=512) :: folder

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call get_command_argument(1, folder)
    field = rank
    total = 0
    call RW_Checkpoint_begin(error)
    call check(error)
    call RW_Checkpoint_register(1, field, all_items, MPI_DOUBLE_PRECISION, error)
    call check(error)
    call RW_Checkpoint_register(2, total, one, MPI_INTEGER, error)
    call check(error)
    call RW_Checkpoint_restore(last, error)
    call check(error)
    if (last == RW_CHECKPOINT_NONE .and. rank == 0) print *, 'begins'
    do step = last + 1, 79
        if (rank == 1 .and. step == 50) then
            open (newunit=unit, file=trim(folder) // '/ended', status='new', iostat=error)
            if (error == 0) error = c_raise(9)
        end if
        call MPI_Allreduce(step + rank, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
        total = total + sum
        field(mod(step, items) + 1) = total
        if (mod(step, 8) == rank) call RW_Checkpoint_save(step, error)
        call check(error)
        if (rank == 1 .and. mod(step, 20) == 0) print *, step, total
    end do
    if (rank == 1) print *, 'end', total, nint(field(1) + field(80) + field(90))
    call RW_Checkpoint_end(0, error)
    call check(error)
    call MPI_Finalize(error)

contains

    subroutine check(code)
        integer, intent(in) :: code
        if (code /= MPI_SUCCESS) print *, 'wrong', code
    end subroutine
end program
