/* cvars: rank 0 writes every parameter of MPI with its value, one a line. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void show(int index) {
    char name[256], text[4096] = "";
    int length = sizeof name, verbosity, binding, scope, count = 0;
    long long whole = 0;
    double real = 0;
    MPI_Datatype type;
    MPI_T_enum words;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_info(index, name, &length, &verbosity, &type, &words, NULL, NULL, &binding, &scope) !=
            MPI_SUCCESS ||
        binding != MPI_T_BIND_NO_OBJECT || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return;
    if (type == MPI_CHAR && count < (int)sizeof text) MPI_T_cvar_read(handle, text);
    else if (type == MPI_DOUBLE) MPI_T_cvar_read(handle, &real);
    else if (type != MPI_CHAR) MPI_T_cvar_read(handle, &whole);
    printf("%s = '%s' %lld %g\n", name, text, whole, real);
    MPI_T_cvar_handle_free(&handle);
}

int main(int count, char **arguments) {
    int provided, variables, rank;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_T_cvar_get_num(&variables);
    for (int i = 0; rank == 0 && i < variables; i++) show(i);
    MPI_Finalize();
    MPI_T_finalize();
    return 0;
}
