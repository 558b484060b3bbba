! ringwatch.h for Fortran programs with "use mpi_f08": include 'ringwatchf08.h' behind implicit none, and link with
! -lringwatch.  ringwatch.h has what the functions do.  The variables of the new communicator and of the error codes
! change until the request has completed: they need the attribute asynchronous, like the buffer of an MPI_Irecv.  So does
! memory that is registered for checkpoints.
interface
    subroutine MPIX_Comm_ishrink(comm, newcomm, request, ierror) bind(C, name='mpix_comm_ishrink_')
        use, intrinsic :: iso_c_binding, only: c_int
        import :: MPI_Comm, MPI_Request
        type(MPI_Comm), intent(in) :: comm
        type(MPI_Comm), intent(out), asynchronous :: newcomm
        type(MPI_Request), intent(out) :: request
        integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine PMPIX_Comm_ishrink(comm, newcomm, request, ierror) bind(C, name='pmpix_comm_ishrink_')
        use, intrinsic :: iso_c_binding, only: c_int
        import :: MPI_Comm, MPI_Request
        type(MPI_Comm), intent(in) :: comm
        type(MPI_Comm), intent(out), asynchronous :: newcomm
        type(MPI_Request), intent(out) :: request
        integer(c_int), intent(out), optional :: ierror
    end subroutine
    ! With bind(C) strings would be descriptors: these are called by their names in Fortran, as with "use mpi", and a handle
    ! is one integer there.
    subroutine MPIX_Comm_ispawn(command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes, request, ierror)
        import :: MPI_Comm, MPI_Info, MPI_Request
        character(len=*), intent(in) :: command, argv(*)
        integer, intent(in) :: maxprocs, root
        type(MPI_Info), intent(in) :: info
        type(MPI_Comm), intent(in) :: comm
        type(MPI_Comm), intent(out), asynchronous :: intercomm
        integer, asynchronous :: array_of_errcodes(*)
        type(MPI_Request), intent(out) :: request
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine MPIX_Comm_iaccept(port_name, info, root, comm, intercomm, request, ierror)
        import :: MPI_Comm, MPI_Info, MPI_Request
        character(len=*), intent(in) :: port_name
        type(MPI_Info), intent(in) :: info
        integer, intent(in) :: root
        type(MPI_Comm), intent(in) :: comm
        type(MPI_Comm), intent(out), asynchronous :: intercomm
        type(MPI_Request), intent(out) :: request
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine MPIX_Comm_iconnect(port_name, info, root, comm, intercomm, request, ierror)
        import :: MPI_Comm, MPI_Info, MPI_Request
        character(len=*), intent(in) :: port_name
        type(MPI_Info), intent(in) :: info
        integer, intent(in) :: root
        type(MPI_Comm), intent(in) :: comm
        type(MPI_Comm), intent(out), asynchronous :: intercomm
        type(MPI_Request), intent(out) :: request
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Checkpoint_begin(ierror)
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Checkpoint_register(id, buf, count, datatype, ierror)
        import :: MPI_COUNT_KIND, MPI_Datatype
        !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
        type(*), dimension(*), asynchronous :: buf
        integer, intent(in) :: id
        integer(kind=MPI_COUNT_KIND), intent(in) :: count
        type(MPI_Datatype), intent(in) :: datatype
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Checkpoint_restore(version, ierror)
        integer, intent(out) :: version
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Checkpoint_save(version, ierror)
        integer, intent(in) :: version
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Checkpoint_end(keep, ierror)
        integer, intent(in) :: keep
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_set_test(test, ierror)
        interface
            function test()
                integer(kind=selected_int_kind(18)) :: test
            end function
        end interface
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_join(comm, info, ierror)
        import :: MPI_Comm, MPI_Info
        type(MPI_Comm), intent(in) :: comm
        type(MPI_Info), intent(in) :: info
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_barrier(complete, size, place, ierror)
        integer, intent(in) :: complete
        integer, intent(out) :: size, place
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_members(ranks, ierror)
        integer, intent(inout) :: ranks(*)
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_round(round, epoch, base, ierror)
        integer, intent(out) :: round, epoch, base
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_returned(count, ranks, ierror)
        integer, intent(out) :: count
        integer, intent(out), optional :: ierror
        integer, intent(inout) :: ranks(*)
    end subroutine
    subroutine RW_Group_lost(count, ierror)
        integer, intent(out) :: count
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_state(rank, state, evictions, ierror)
        integer, intent(in) :: rank
        integer, intent(out) :: state, evictions
        integer, intent(out), optional :: ierror
    end subroutine
    subroutine RW_Group_leave(ierror)
        integer, intent(out), optional :: ierror
    end subroutine
end interface
integer, parameter :: RW_CHECKPOINT_NONE = -1
integer, parameter :: RW_GROUP_MEMBER = 0, RW_GROUP_EVICTED = 1
integer, parameter :: RW_GROUP_DEAD = 2, RW_GROUP_LEFT = 3
procedure(MPIX_Comm_ispawn) :: PMPIX_Comm_ispawn
procedure(MPIX_Comm_iaccept) :: PMPIX_Comm_iaccept
procedure(MPIX_Comm_iconnect) :: PMPIX_Comm_iconnect
