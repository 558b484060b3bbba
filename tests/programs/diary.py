"""The diary of a rank of a test, and the wait for a death, as in diary.h and scoped.c."""
import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, victim = world.rank, world.size - 1


def event(*words):
    with open(f"{sys.argv[2]}/rank.{rank}", "a", encoding="ascii") as diary:
        print(rank, time.clock_gettime_ns(time.CLOCK_BOOTTIME), *words, file=diary)


def expect_death(comm):
    """A request that ends as the last rank dies."""
    return comm.Irecv(bytearray(4), source=victim, tag=9)


def wait_for_death(from_victim):
    try:
        while not from_victim.Test():
            time.sleep(0.0002)
    except MPI.Exception:
        pass


event("started", os.getpid())
