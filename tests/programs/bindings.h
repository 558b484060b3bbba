/* The types of MPI's handles in Fortran. -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08". */
#if BINDING == 3
#define COMM_TYPE type(MPI_Comm)
#define INFO_TYPE type(MPI_Info)
#define REQUEST_TYPE type(MPI_Request)
#define STATUS_TYPE type(MPI_Status)
#else
#define COMM_TYPE integer
#define INFO_TYPE integer
#define REQUEST_TYPE integer
#define STATUS_TYPE integer, dimension(MPI_STATUS_SIZE)
#endif
