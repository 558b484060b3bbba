#!/usr/bin/env python3
"""objects: collective operations on objects of Python, whose ranks die one after the other, with the recipe of the manual.

    objects.py --events DIR

The last rank dies in the midst of them, and then the last one of the others, until one is left. Each rank writes "left SIZE CLASS" as
it is interrupted in a communicator of that size, and "shrunk SIZE SUM" when it goes on.
"""
import os
import signal

from mpi4py import MPI

from diary import event

OPERATIONS = [
    lambda comm, k: comm.allreduce(k),
    lambda comm, k: comm.bcast({"round": k}, root=k % comm.size),
    lambda comm, k: comm.reduce(k, root=k % comm.size),
    lambda comm, k: comm.gather(k, root=k % comm.size),
    lambda comm, k: comm.scatter([k] * comm.size, root=k % comm.size),
    lambda comm, k: comm.scan(k),
    lambda comm, k: comm.alltoall([k] * comm.size),
]

# The recipe.
info = MPI.Info.Create({"mpix_error_scope": "group"})
comm = MPI.COMM_WORLD.Dup(info)
# Its end.

while comm.size > 1:
    # The one that others are waiting for or have left is another one each time.
    dies_in = 20 + comm.size
    try:
        for k in range(1_000_000):
            if comm.rank == comm.size - 1 and k == dies_in:
                os.kill(os.getpid(), signal.SIGKILL)
            OPERATIONS[k % len(OPERATIONS)](comm, k)
    except MPI.Exception as error:
        event("left", comm.size, error.Get_error_class())
    comm.Revoke()
    comm = comm.Shrink()
    event("shrunk", comm.size, comm.allreduce(1))
MPI.Finalize()
event("finalized", 0)
