/* Makes a window, a file and a Cartesian communicator. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int ranks, periods = 1, *memory;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win window;
    MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_free(&window);
    MPI_File file;
    MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_close(&file);
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periods, 0, &ring);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
