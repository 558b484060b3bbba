! ringwatch.h for Fortran programs with "use mpi" or mpif.h, in free or
! fixed form: include 'ringwatchf.h' behind implicit none, and link with
! -lringwatch.  ringwatch.h has what the functions do.  The variables of
! the new communicator and of the error codes change until the request
! has completed: they need the attribute asynchronous, like the buffer
! of an MPI_Irecv.  So does memory that is registered for checkpoints.
      interface
        subroutine MPIX_Comm_ishrink(comm, newcomm, request, ierror)
          integer, intent(in) :: comm
          integer, intent(out), asynchronous :: newcomm
          integer, intent(out) :: request, ierror
        end subroutine
        subroutine MPIX_Comm_ispawn(command, argv, maxprocs, info,      &
     &      root, comm, intercomm, array_of_errcodes, request, ierror)
          character(len=*), intent(in) :: command, argv(*)
          integer, intent(in) :: maxprocs, info, root, comm
          integer, intent(out), asynchronous :: intercomm
          integer, asynchronous :: array_of_errcodes(*)
          integer, intent(out) :: request, ierror
        end subroutine
        subroutine MPIX_Comm_iaccept(port_name, info, root, comm,       &
     &      intercomm, request, ierror)
          character(len=*), intent(in) :: port_name
          integer, intent(in) :: info, root, comm
          integer, intent(out), asynchronous :: intercomm
          integer, intent(out) :: request, ierror
        end subroutine
        subroutine MPIX_Comm_iconnect(port_name, info, root, comm,      &
     &      intercomm, request, ierror)
          character(len=*), intent(in) :: port_name
          integer, intent(in) :: info, root, comm
          integer, intent(out), asynchronous :: intercomm
          integer, intent(out) :: request, ierror
        end subroutine
        subroutine RW_Checkpoint_begin(ierror)
          integer, intent(out) :: ierror
        end subroutine
        subroutine RW_Checkpoint_register(id, buf, count, datatype,     &
     &      ierror)
          import :: MPI_COUNT_KIND
!GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
          type(*), dimension(*), asynchronous :: buf
          integer, intent(in) :: id, datatype
          integer(kind=MPI_COUNT_KIND), intent(in) :: count
          integer, intent(out) :: ierror
        end subroutine
        subroutine RW_Checkpoint_restore(version, ierror)
          integer, intent(out) :: version, ierror
        end subroutine
        subroutine RW_Checkpoint_save(version, ierror)
          integer, intent(in) :: version
          integer, intent(out) :: ierror
        end subroutine
        subroutine RW_Checkpoint_end(keep, ierror)
          integer, intent(in) :: keep
          integer, intent(out) :: ierror
        end subroutine
        subroutine RW_Group_set_test(test, ierror)
          interface
            function test()
              integer(kind=selected_int_kind(18)) :: test
            end function
          end interface
          integer, intent(out) :: ierror
        end subroutine
        subroutine RW_Group_join(comm, info, ierror)
          integer, intent(in) :: comm, info
          integer, intent(out) :: ierror
        end subroutine
        subroutine RW_Group_barrier(complete, size, place, ierror)
          integer, intent(in) :: complete
          integer, intent(out) :: size, place, ierror
        end subroutine
        subroutine RW_Group_members(ranks, ierror)
          integer, intent(inout) :: ranks(*)
          integer, intent(out) :: ierror
        end subroutine
        subroutine RW_Group_round(round, epoch, base, ierror)
          integer, intent(out) :: round, epoch, base, ierror
        end subroutine
        subroutine RW_Group_returned(count, ranks, ierror)
          integer, intent(out) :: count, ierror
          integer, intent(inout) :: ranks(*)
        end subroutine
        subroutine RW_Group_lost(count, ierror)
          integer, intent(out) :: count, ierror
        end subroutine
        subroutine RW_Group_state(rank, state, evictions, ierror)
          integer, intent(in) :: rank
          integer, intent(out) :: state, evictions, ierror
        end subroutine
        subroutine RW_Group_leave(ierror)
          integer, intent(out) :: ierror
        end subroutine
      end interface
      integer, parameter :: RW_CHECKPOINT_NONE = -1
      integer, parameter :: RW_GROUP_MEMBER = 0, RW_GROUP_EVICTED = 1
      integer, parameter :: RW_GROUP_DEAD = 2, RW_GROUP_LEFT = 3
      procedure(MPIX_Comm_ishrink) :: PMPIX_Comm_ishrink
      procedure(MPIX_Comm_ispawn) :: PMPIX_Comm_ispawn
      procedure(MPIX_Comm_iaccept) :: PMPIX_Comm_iaccept
      procedure(MPIX_Comm_iconnect) :: PMPIX_Comm_iconnect
