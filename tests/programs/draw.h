/* The same sequence at every rank, from a seed: a linear congruential generator. */
static unsigned long seed = 1;

static unsigned long draw(void) {
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return seed >> 33;
}
