! recommended: the group of recommended processes in Fortran. Rank 1 has not completed its first round, so that it is done again.
! All print what they know of each round. -DBINDING=1 is mpif.h, 2 is "use mpi", 3 is "use mpi_f08".
program recommended
#if BINDING == 3
    use mpi_f08
#elif BINDING == 2
    use mpi
#endif
    implicit none
#if BINDING == 1
    include 'mpif.h'
#endif
#if BINDING == 3
    include 'ringwatchf08.h'
#else
    include 'ringwatchf.h'
#endif
#include "bindings.h"
    external :: answer
    integer(kind=selected_int_kind(18)) :: answer
    INFO_TYPE :: info
    integer :: rank, error, size, place, round, epoch, base, returned, lost, state, evictions, complete
    integer, dimension(64) :: ranks

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Info_create(info, error)
    call MPI_Info_set(info, 'rw_interval', '100', error)
    call MPI_Info_set(info, 'rw_addend', '10000', error)
    call RW_Group_set_test(answer, error)
    if (error == MPI_SUCCESS) call RW_Group_join(MPI_COMM_WORLD, info, error)
    call MPI_Info_free(info, lost)
    do while (error == MPI_SUCCESS)
        call RW_Group_round(round, epoch, base, error)
        if (round == 2) exit
        complete = 1
        if (rank == 1 .and. epoch == 1) complete = 0
        call RW_Group_barrier(complete, size, place, error)
        call RW_Group_round(round, epoch, base, error)
        call RW_Group_members(ranks, error)
        call RW_Group_state(1, state, evictions, error)
        call RW_Group_lost(lost, error)
        if (state == RW_GROUP_MEMBER .and. place == rank) then
            print *, 'round', round, 'epoch', epoch, 'base', base, 'members', ranks(1:size), 'lost', lost
        end if
        call RW_Group_returned(returned, ranks, error)
        if (returned /= 0) print *, 'returned', ranks(1:returned)
    end do
    call MPI_Barrier(MPI_COMM_WORLD, error)
    call RW_Group_leave(error)
    if (error == MPI_SUCCESS .and. rank == 0) print *, 'end'
    call MPI_Finalize(error)
end program

function answer()
    implicit none
    integer(kind=selected_int_kind(18)) :: answer
    answer = 42
end function
