/* Messages of 1 B to 4 MiB and of all classes of datatypes, or collective operations. What is sent depends on ranks and rounds only:
 * what a rank has received goes into no message. Each rank prints how many of its rounds have brought something else.
 *
 *   flips messages|collectives ROUNDS
 */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4 << 20, CLASSES = 7, SIZES = 23, WORDS = 20000, OPERATIONS = 10 };

static int rank, size, wrong;

static MPI_Datatype class_of(int number)
{
    MPI_Datatype type = MPI_BYTE;
    struct record {
        char letter;
        double value;
        short number;
    };
    switch (number) {
    case 0: MPI_Type_dup(MPI_BYTE, &type); break;
    case 1: MPI_Type_contiguous(3, MPI_INT, &type); break;
    case 2: MPI_Type_vector(2, 3, 5, MPI_INT, &type); break;
    case 3: MPI_Type_indexed(2, (int[]) {1, 2}, (int[]) {0, 3}, MPI_DOUBLE, &type); break;
    case 4:
        MPI_Type_create_struct(
            3, (int[]) {1, 1, 1},
            (MPI_Aint[]) {offsetof(struct record, letter), offsetof(struct record, value), offsetof(struct record, number)},
            (MPI_Datatype[]) {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, &type);
        break;
    case 5: MPI_Type_create_resized(MPI_INT, 0, 12, &type); break;
    default:
        MPI_Type_create_subarray(2, (int[]) {4, 4}, (int[]) {2, 3}, (int[]) {1, 1}, MPI_ORDER_C, MPI_FLOAT, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

static void fill(unsigned char *data, size_t bytes, unsigned from, unsigned to, unsigned round)
{
    unsigned state = 1 + 7919 * from + 104729 * to + 1299709 * round;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = state >> 24;
    }
}

static void exchange(int round)
{
    static unsigned char *sent, *got, *packed[2];
    if (!sent) {
        sent = malloc(8 * LONGEST), got = malloc(8 * LONGEST), packed[0] = malloc(LONGEST), packed[1] = malloc(LONGEST);
    }
    int bytes = 1 << round * 5 % SIZES, unit, tag = round;
    MPI_Aint low, extent;
    MPI_Datatype type = class_of(bytes < 64 ? 0 : round % CLASSES);
    MPI_Type_size(type, &unit);
    MPI_Type_get_extent(type, &low, &extent);
    int count = bytes / unit, by = 1 + round % (size - 1);
    int to = (rank + by) % size, from = (rank + size - by) % size;
    size_t whole = (size_t) count * extent + 64;
    fill(sent, whole, rank, to, round);
    MPI_Request requests[2];
    MPI_Irecv(got, count, type, round % 5 ? from : MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &requests[0]);
    switch (round % 3) {
    case 0: MPI_Isend(sent, count, type, to, tag, MPI_COMM_WORLD, &requests[1]); break;
    case 1: MPI_Issend(sent, count, type, to, tag, MPI_COMM_WORLD, &requests[1]); break;
    default:
        MPI_Send_init(sent, count, type, to, tag, MPI_COMM_WORLD, &requests[1]);
        MPI_Start(&requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (round % 3 == 2) {
        MPI_Request_free(&requests[1]);
    }
    fill(sent, whole, from, rank, round);
    int places[2] = {0, 0};
    MPI_Pack(sent, count, type, packed[0], LONGEST, &places[0], MPI_COMM_SELF);
    MPI_Pack(got, count, type, packed[1], LONGEST, &places[1], MPI_COMM_SELF);
    wrong += memcmp(packed[0], packed[1], places[0]) != 0;
    MPI_Type_free(&type);
}

static int word(int of, int place, int round)
{
    return (of + 1) * (place % 97 + round);
}

/* Of each word: what all ranks together have, or those up to this one. */
static int sum(int ranks, int place, int round)
{
    return ranks * (ranks + 1) / 2 * (place % 97 + round);
}

static void operate(int round)
{
    static int mine[8 * WORDS], got[8 * WORDS];
    int words = 1 + round * 1237 % WORDS, root = round % size, is_right = 1;
    for (int i = 0; i < size * words; i++) {
        mine[i] = word(rank, i, round);
        got[i] = -1;
    }
    switch (round % OPERATIONS) {
    case 0:
        MPI_Bcast(mine, words, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < words; i++) is_right &= mine[i] == word(root, i, round);
        break;
    case 1:
        MPI_Reduce(mine, got, words, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        for (int i = 0; i < words && rank == root; i++) is_right &= got[i] == sum(size, i, round);
        break;
    case 2:
        MPI_Allreduce(mine, got, words, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < words; i++) is_right &= got[i] == sum(size, i, round);
        break;
    case 3:
        MPI_Gather(mine, words, MPI_INT, got, words, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < size * words && rank == root; i++) is_right &= got[i] == word(i / words, i % words, round);
        break;
    case 4:
        MPI_Scatter(mine, words, MPI_INT, got, words, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < words; i++) is_right &= got[i] == word(root, rank * words + i, round);
        break;
    case 5:
        MPI_Allgather(mine, words, MPI_INT, got, words, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < size * words; i++) is_right &= got[i] == word(i / words, i % words, round);
        break;
    case 6:
        MPI_Alltoall(mine, words, MPI_INT, got, words, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < size * words; i++) is_right &= got[i] == word(i / words, rank * words + i % words, round);
        break;
    case 7:
        MPI_Scan(mine, got, words, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < words; i++) is_right &= got[i] == sum(rank + 1, i, round);
        break;
    case 8:
        MPI_Reduce_scatter_block(mine, got, words, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < words; i++) is_right &= got[i] == sum(size, rank * words + i, round);
        break;
    default: MPI_Barrier(MPI_COMM_WORLD);
    }
    wrong += !is_right;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void (*once)(int) = strcmp(argv[1], "messages") ? operate : exchange;
    for (int round = 0; round < atoi(argv[2]); round++) {
        once(round);
    }
    printf("rank %d: %d of %s rounds are wrong\n", rank, wrong, argv[2]);
    MPI_Finalize();
    return 0;
}
