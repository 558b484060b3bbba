#!/usr/bin/env python3
"""scoped: what scoped.c does, for one operation (recv or allreduce), with the victim inside or outside, in Python.

    scoped.py --events DIR --scope SCOPE --how set --victim-is WHERE OP
"""
import sys
import time

from mpi4py import MPI

from diary import event, expect_death, rank, victim, wait_for_death, world

_, _, _, scope, _, how, _, place, operation = sys.argv[1:]


def join_in():
    value = bytearray(4)
    if operation == "allreduce":
        comm.Allreduce(bytearray(8), bytearray(8))
    elif rank > 0:
        comm.Recv(value, source=0, tag=7)
    else:
        for peer in range(1, victim):
            comm.Send(value, dest=peer, tag=7)


comm = world.Split(1 if rank < victim or place == "inside" else MPI.UNDEFINED, rank)
from_victim = expect_death(world)
world.Barrier()
if rank == victim:
    while True:
        time.sleep(1)
info = MPI.Info.Create({"mpix_error_scope": scope})
comm.Set_info(info)
info.Free()
event("blocked", 0)
if rank == 0:
    wait_for_death(from_victim)
try:
    join_in()
    event("result", 0, MPI.SUCCESS)
except MPI.Exception as error:
    event("result", 0, error.Get_error_class())
if rank > 0:
    wait_for_death(from_victim)
MPI.Finalize()
event("finalized", 0)
