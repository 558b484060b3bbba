#!/usr/bin/env python3
"""uniform: what uniform.c does, for one operation (bcast, scan, ireduce or dup), in Python; the victim is the last rank.

    uniform.py --events DIR --uniform VALUE --how set --seed NUMBER OP
"""
import os
import signal
import sys

from mpi4py import MPI

from diary import event, expect_death, rank, victim, wait_for_death, world

_, _, _, value, _, how, _, seed, operation = sys.argv[1:]
last_call = int(seed) % 8


def call():
    """The class with which one call of the operation ends."""
    sent, got = bytearray(4), bytearray(4)
    try:
        if operation == "bcast":
            comm.Bcast(sent, root=0)
        elif operation == "scan":
            comm.Scan([sent, 1, MPI.INT], [got, 1, MPI.INT])
        elif operation == "ireduce":
            comm.Ireduce([sent, 1, MPI.INT], [got, 1, MPI.INT], root=0).Wait()
        else:
            comm.Dup().Free()
        return MPI.SUCCESS
    except MPI.Exception as error:
        return error.Get_error_class()


comm = world.Split(0, rank)
from_victim = expect_death(world)
info = MPI.Info.Create({"mpix_error_uniform": value})
comm.Set_info(info)
info.Free()
world.Barrier()
calls = 0
while True:
    if rank == victim and calls == last_call:
        os.kill(os.getpid(), signal.SIGKILL)
    code = call()
    if code != MPI.SUCCESS:
        break
    calls += 1
event("ended", 0, calls, code, call())
wait_for_death(from_victim)
MPI.Finalize()
event("finalized", 0)
