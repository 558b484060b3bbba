/* agreements: members agree on several communicators at once, round after round, while some of them die.
 *
 *   agreements --events DIR --seed NUMBER VICTIM...
 *
 * Each victim dies some time after the beginning of one of the first rounds, both of which the seed decides. A member
 * contributes all bits but its own, and acknowledges the dead after an error. Events are lines "rank nanoseconds event
 * details": "agreed ROUND COMMUNICATOR CLASS BITS" after each agreement, with the bits of those who have taken part.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class.h"
#include "draw.h"
#include "world.h"

enum { COMMUNICATORS = 3, ROUNDS = 40, FIRST_ROUNDS = 10, LONGEST_LIFE_US = 1000 };

static void dies(int signal) {
    (void)signal;
    kill(getpid(), SIGKILL);
}

int main(int count, char **arguments) {
    const char *dir = "";
    unsigned long last_round = ROUNDS;
    useconds_t life = 0;
    MPI_Comm comms[COMMUNICATORS];
    int first_victim = count;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--events")) dir = arguments[++i];
        else if (!strcmp(arguments[i], "--seed")) seed = strtoul(arguments[++i], NULL, 10);
        else if (i < first_victim) first_victim = i;
    }
    enter_world(&count, &arguments, dir);
    for (int i = first_victim; i < count; i++) {
        unsigned long its_round = draw() % FIRST_ROUNDS;
        useconds_t its_life = (useconds_t)(draw() % LONGEST_LIFE_US) + 1;
        if (atoi(arguments[i]) == world_rank) last_round = its_round, life = its_life;
    }
    for (int k = 0; k < COMMUNICATORS; k++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]);
        MPI_Comm_set_errhandler(comms[k], MPI_ERRORS_RETURN);
    }
    signal(SIGALRM, dies);
    for (unsigned long round = 0; round < ROUNDS; round++) {
        MPI_Request requests[COMMUNICATORS];
        int bits[COMMUNICATORS];
        if (round == last_round) ualarm(life, 0);
        for (int k = 0; k < COMMUNICATORS; k++) {
            bits[k] = ~(1 << world_rank);
            MPIX_Comm_iagree(comms[k], &bits[k], &requests[k]);
        }
        for (int k = 0; k < COMMUNICATORS; k++) {
            int code = MPI_Wait(&requests[k], MPI_STATUS_IGNORE), acknowledged;
            event("agreed %lu %d %d %d", round, k, class_of(code), ~bits[k]);
            if (code != MPI_SUCCESS) MPIX_Comm_ack_failed(comms[k], world_size, &acknowledged);
        }
        if (round >= last_round) pause();
    }
    event("finalized %d", MPI_Finalize());
    return 0;
}
