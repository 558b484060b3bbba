"""As recommended.F90, in Python, with a test of its own."""

import ringwatch
from mpi4py import MPI

comm = MPI.COMM_WORLD
ringwatch.group_join(comm, {"rw_interval": "100", "rw_addend": "10000"}, test=lambda: 42)
while ringwatch.group_round()[0] < 2:
    complete = comm.rank != 1 or ringwatch.group_round()[1] != 1
    members, place = ringwatch.group_barrier(complete)
    (round, epoch, base), lost = ringwatch.group_round(), ringwatch.group_lost()
    if place == comm.rank and ringwatch.group_state(1) == ("member", 0) and ringwatch.group_returned() == []:
        print("round", round, "epoch", epoch, "base", base, "members", *members, "lost", lost, flush=True)
comm.Barrier()
ringwatch.group_leave()
try:
    ringwatch.group_lost()
except MPI.Exception:
    if comm.rank == 0:
        print("end", flush=True)
