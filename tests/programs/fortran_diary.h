    ! What diary.h is for programs in C, among the procedures of a Fortran program.

    subroutine begin()
        call get_command_argument(2, dir)
        ! Who is spawned without arguments is in the folder of the diaries.
        if (dir == '') dir = '.'
        call MPI_Init(error)
        call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, error)
        call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
        call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
        ! Who is spawned is numbered on, behind as many.
        call MPI_Comm_get_parent(parents, error)
        if (parents /= MPI_COMM_NULL) rank = rank + ranks
        call open_diary()
        call event('started', [getpid()])
    end subroutine

    subroutine open_diary()
        character(len=12) :: number
        write (number, '(i0)') rank
        open (newunit=unit, file=trim(dir)//'/rank.'//trim(number), position='append')
    end subroutine

    ! CLOCK_BOOTTIME.
    function now_ns()
        use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
        integer(int64) :: now_ns
        integer(c_int64_t) :: time(2)
        integer(c_int) :: failed
        interface
            function clock_gettime(clock, time) bind(c)
                use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
                integer(c_int), value :: clock
                integer(c_int64_t) :: time(2)
                integer(c_int) :: clock_gettime
            end function
        end interface
        failed = clock_gettime(7_c_int, time)
        now_ns = time(1) * 1000000000_int64 + time(2)
    end function

    subroutine event(name, details)
        character(len=*), intent(in) :: name
        integer, intent(in) :: details(:)
        write (unit, '(i0,1x,i0,1x,a,*(1x,i0))') rank, now_ns(), name, details
        flush (unit)
    end subroutine

    subroutine wait_for_death()
        done = .false.
        do while (.not. done)
            call MPI_Test(from_victim, done, status, error)
            if (error /= MPI_SUCCESS) exit
            error = c_usleep(200)
        end do
    end subroutine
