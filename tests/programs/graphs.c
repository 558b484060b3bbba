/* graphs: members tell each other of the edges of graphs, of which each knows some.
 *
 *   graphs --events DIR
 *
 * Events are lines "rank nanoseconds event details", as in survivor.c: "right CASE" if the neighbours of this process and
 * the weights are what follows from the edges of all, else "wrong CASE".
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "class.h"
#include "world.h"

enum { MOST = 400, CASES = 5 };

struct edge { int from, to, weight, teller; };

static struct edge edges[MOST];
static int edge_count;

/* The edges of a case: some are there twice, some lead to themselves, and who tells of them need not be at either end. */
static void draw_edges(int number) {
    edge_count = 0;
    for (int from = 0; from < world_size; from++)
        for (int k = 0; k < (from + number) % 5; k++)
            edges[edge_count++] = (struct edge){from, (from + k * k + number) % world_size, 100 * from + k,
                                                number == 3 ? world_size - 1 : (from * 7 + k + number) % world_size};
    if (number == 4) edge_count = 0;
}

static int by_value(const void *one, const void *other) { return memcmp(one, other, 2 * sizeof(int)); }

/* Whether these are the neighbours at the other ends of the edges that come to this process, or lead from it. */
static bool right(bool come, int count, const int *neighbours, const int *weights, bool weighted) {
    int expected[MOST][2], got[MOST][2], expected_count = 0;
    for (int i = 0; i < edge_count; i++) {
        const struct edge *edge = &edges[i];
        if ((come ? edge->to : edge->from) != world_rank) continue;
        expected[expected_count][0] = come ? edge->from : edge->to;
        expected[expected_count++][1] = weighted ? edge->weight : 0;
    }
    for (int i = 0; i < count; i++) got[i][0] = neighbours[i], got[i][1] = weighted ? weights[i] : 0;
    qsort(expected, (size_t)expected_count, sizeof *expected, by_value);
    qsort(got, (size_t)count, sizeof *got, by_value);
    return count == expected_count && !memcmp(got, expected, (size_t)count * sizeof *got);
}

int main(int count, char **arguments) {
    enter_world(&count, &arguments, arguments[2]);
    /* GCC takes them for addresses, and knows that nothing is there. */
    int *volatile unweighted = MPI_UNWEIGHTED, *volatile no_weights = MPI_WEIGHTS_EMPTY;
    for (int number = 0; number < CASES; number++)
        for (int weighted = 0; weighted < 2; weighted++) {
            int told = 0, nodes[MOST], degrees[MOST], targets[MOST], weights[MOST];
            draw_edges(number);
            for (int i = 0; i < edge_count; i++) {
                if (edges[i].teller != world_rank) continue;
                nodes[told] = edges[i].from, degrees[told] = 1, targets[told] = edges[i].to, weights[told] = edges[i].weight;
                told++;
            }
            MPI_Comm made;
            int *used = !weighted ? unweighted : told > 0 ? weights : no_weights, in, out, is_weighted;
            int code = MPI_Dist_graph_create(MPI_COMM_WORLD, told, nodes, degrees, targets, used, MPI_INFO_NULL, 0, &made);
            if (code != MPI_SUCCESS) {
                event("wrong %d ends with %d", number, class_of(code));
                continue;
            }
            int sources[MOST], source_weights[MOST], destinations[MOST], destination_weights[MOST];
            MPI_Dist_graph_neighbors_count(made, &in, &out, &is_weighted);
            MPI_Dist_graph_neighbors(made, in, sources, weighted ? source_weights : unweighted, out, destinations,
                                     weighted ? destination_weights : unweighted);
            bool same = !is_weighted == !weighted && right(true, in, sources, source_weights, weighted)
                && right(false, out, destinations, destination_weights, weighted);
            event("%s %d", same ? "right" : "wrong", 2 * number + weighted);
            MPI_Comm_free(&made);
        }
    event("finalized %d", MPI_Finalize());
    return 0;
}
