#!/usr/bin/env python3
"""uniform: what uniform.c does, for one operation (bcast, scan, ireduce or dup, or
two_bcast or two_ireduce, of two groups), in Python; the victim is the last rank.

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
            comm.Bcast([sent, count, MPI.INT], root=root)
        elif operation == "scan":
            comm.Scan([sent, 1, MPI.INT], [got, 1, MPI.INT])
        elif operation == "ireduce":
            comm.Ireduce([sent, count, MPI.INT], [got, count, MPI.INT], root=root).Wait()
        else:
            comm.Dup().Free()
        return MPI.SUCCESS
    except MPI.Exception as error:
        return error.Get_error_class()


comm = world.Split(0, rank)
root, count = 0, 1
if operation.startswith("two_"):
    operation = operation.removeprefix("two_")
    middle = world.Get_size() // 2
    lower = rank < middle
    comm = world.Split(lower, rank).Create_intercomm(0, world, middle if lower else 0, 7)
    if lower:
        root, count = (MPI.ROOT, 1) if rank == 0 else (MPI.PROC_NULL, 0)
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
