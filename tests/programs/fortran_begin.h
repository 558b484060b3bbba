! How a Fortran program of the tests begins, after its name: MPI in one of its bindings, and what fortran_diary.h needs.
#if BINDING == 3
    use mpi_f08
#ifdef WITH_RINGWATCH
    use mpi_f08_ext
#endif
#elif BINDING == 2
    use mpi
#ifdef WITH_RINGWATCH
    use mpi_ext
#endif
#endif
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none
#if BINDING == 1
    include 'mpif.h'
#endif
#if defined WITH_RINGWATCH && BINDING == 3
    include 'ringwatchf08.h'
#elif defined WITH_RINGWATCH
    include 'ringwatchf.h'
#endif
    interface
        integer(c_int) function c_usleep(microseconds) bind(c, name='usleep')
            import :: c_int
            integer(c_int), value :: microseconds
        end function
        integer(c_int) function c_raise(signal) bind(c, name='raise')
            import :: c_int
            ! 9 is SIGKILL.
            integer(c_int), value :: signal
        end function
    end interface
    character(len=512) :: dir
    COMM_TYPE :: parents
    REQUEST_TYPE :: from_victim
    STATUS_TYPE :: status
    integer :: rank, ranks, error, unit
    logical :: done
