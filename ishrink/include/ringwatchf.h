! MPIX_Comm_ishrink for Fortran programs with "use mpi" or mpif.h, in
! free or fixed form: include 'ringwatchf.h' behind implicit none, and
! link with -lringwatch.  ringwatch.h has what it does.  The variable of
! the new communicator changes until the request has completed: it needs
! the attribute asynchronous, like the buffer of an MPI_Irecv.
      interface
        subroutine MPIX_Comm_ishrink(comm, newcomm, request, ierror)
          integer, intent(in) :: comm
          integer, intent(out), asynchronous :: newcomm
          integer, intent(out) :: request, ierror
        end subroutine
        subroutine PMPIX_Comm_ishrink(comm, newcomm, request, ierror)
          integer, intent(in) :: comm
          integer, intent(out), asynchronous :: newcomm
          integer, intent(out) :: request, ierror
        end subroutine
      end interface
