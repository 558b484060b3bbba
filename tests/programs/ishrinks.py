#!/usr/bin/env python3
"""ishrinks: what ishrinks.c does with its requests completed by MPI_Waitall, in Python.

    ishrinks.py --events DIR waitall COUNT SECOND THIRD
"""
import os
import signal
import sys
import time

import ringwatch
from mpi4py import MPI

from diary import event, expect_death, rank, victim, wait_for_death, world

count, second = int(sys.argv[4]), int(sys.argv[5])


def with_scope(scope):
    info = MPI.Info.Create({"mpix_error_scope": scope})
    comm = world.Dup(info)
    info.Free()
    return comm


def agree(comm, fine):
    try:
        return comm.Agree(int(fine)) == 1
    except MPI.Exception:
        return False


def works(comm):
    total = bytearray(4)
    try:
        comm.Allreduce([(1).to_bytes(4, "little"), MPI.INT], [total, MPI.INT])
        return int.from_bytes(total, "little") == comm.size
    except MPI.Exception:
        comm.Revoke()
        return False


def all_work(comms):
    fine = True
    for comm in comms:
        fine = agree(comm, fine)
    for comm in comms:
        fine = fine and works(comm)
    return agree(comms[0], fine)


calm = world.Dup()
comms = [with_scope(("local", "group", "global")[i % 3]) for i in range(count)]
from_victim = expect_death(calm)
calm.Barrier()
event("blocked", 0)
while rank == victim:
    time.sleep(1)
wait_for_death(from_victim)
while True:
    started = [ringwatch.ishrink(comm) for comm in comms]
    comms, requests = [list(column) for column in zip(*started)]
    if rank == second:
        event("dies", int(requests[-1].Test()))
        os.kill(os.getpid(), signal.SIGKILL)
    MPI.Request.Waitall(requests)
    if all_work(comms):
        break
for number, comm in enumerate(comms):
    info = comm.Get_info()
    event("shrunk", number, comm.size, info.Get("mpix_error_scope"))
    info.Free()
MPI.Finalize()
event("finalized", 0)
