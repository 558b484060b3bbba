#!/usr/bin/env python3
"""uniform: what uniform.c does, for one operation (bcast, scan, ireduce or dup), in Python; the victim is the last rank.

    uniform.py --events DIR --uniform VALUE --how set --seed NUMBER OP
"""
import os
import signal
import sys
import time

from mpi4py import MPI

_, folder, _, value, _, how, _, seed, operation = sys.argv[1:]
world = MPI.COMM_WORLD
rank, victim = world.rank, world.size - 1
last_call = int(seed) % 8


def event(*words):
    with open(f"{folder}/rank.{rank}", "a", encoding="ascii") as diary:
        print(rank, time.monotonic_ns(), *words, file=diary)


def wait_for_death():
    try:
        while not from_victim.Test():
            time.sleep(0.0002)
    except MPI.Exception:
        pass


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


event("started", os.getpid())
comm = world.Split(0, rank)
from_victim = world.Irecv(bytearray(4), source=victim, tag=9)
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
wait_for_death()
MPI.Finalize()
event("finalized", 0)
