! MPIX_Comm_ishrink for Fortran programs with "use mpi_f08": include 'ringwatchf08.h' behind implicit none, and link with
! -lringwatch.  ringwatch.h has what it does.  The variable of the new communicator changes until the request has
! completed: it needs the attribute asynchronous, like the buffer of an MPI_Irecv.
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
end interface
