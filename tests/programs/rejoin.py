"""Calls of the group from Python that must fail, and change nothing: before joining, with a value that cannot be used, and after
joining, with a test of its own ("own") or without ("none"). Each process prints the classes of the errors, how often the tests of
joins that have failed were called, and who is a member."""
import gc
import sys
import time

import ringwatch
from mpi4py import MPI

comm = MPI.COMM_WORLD
classes, called = [], []


def refused(function, *arguments, **named):
    try:
        function(*arguments, **named)
        classes.append("none")
    except MPI.Exception as error:
        classes.append(MPI.Get_error_string(error.Get_error_class()).split(":")[0])


refused(ringwatch.group_members)
refused(ringwatch.group_returned)
refused(ringwatch.group_join, comm, {"rw_interval": "9"}, test=lambda: called.append(1) or 7)
ringwatch.group_join(comm, {"rw_interval": "50", "rw_addend": "10000"}, test=(lambda: 42) if sys.argv[1] == "own" else None)
for _ in range(5):
    refused(ringwatch.group_join, comm, {"rw_interval": "50"}, test=lambda: called.append(1) or 7)
    gc.collect()
junk = [bytearray(4096) for _ in range(1000)]
until = time.monotonic() + 1
while time.monotonic() < until:
    time.sleep(0.01)
    ringwatch.group_lost()
states = [ringwatch.group_state(rank)[0] for rank in range(comm.size)]
print(*classes, len(called), *states, flush=True)
comm.Barrier()
ringwatch.group_leave()
refused(ringwatch.group_members)
print("left:", classes[-1], flush=True)
