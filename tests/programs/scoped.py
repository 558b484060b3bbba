#!/usr/bin/env python3
"""scoped: what scoped.c does, for one operation (recv or allreduce), with the victim inside or outside, in Python.

    scoped.py --events DIR --scope SCOPE --how set --victim-is WHERE OP
"""
import os
import sys
import time

from mpi4py import MPI

_, folder, _, scope, _, how, _, place, operation = sys.argv[1:]
world = MPI.COMM_WORLD
rank, victim = world.rank, world.size - 1


def event(*words):
    with open(f"{folder}/rank.{rank}", "a", encoding="ascii") as diary:
        print(rank, time.monotonic_ns(), *words, file=diary)


def wait_for_death():
    try:
        while not from_victim.Test():
            time.sleep(0.0002)
    except MPI.Exception:
        pass


def join_in():
    value = bytearray(4)
    if operation == "allreduce":
        comm.Allreduce(bytearray(8), bytearray(8))
    elif rank > 0:
        comm.Recv(value, source=0, tag=7)
    else:
        for peer in range(1, victim):
            comm.Send(value, dest=peer, tag=7)


event("started", os.getpid())
comm = world.Split(1 if rank < victim or place == "inside" else MPI.UNDEFINED, rank)
from_victim = world.Irecv(bytearray(4), source=victim, tag=9)
world.Barrier()
if rank == victim:
    while True:
        time.sleep(1)
info = MPI.Info.Create({"mpix_error_scope": scope})
comm.Set_info(info)
info.Free()
event("blocked", 0)
if rank == 0:
    wait_for_death()
try:
    join_in()
    event("result", 0, MPI.SUCCESS)
except MPI.Exception as error:
    event("result", 0, error.Get_error_class())
if rank > 0:
    wait_for_death()
MPI.Finalize()
event("finalized", 0)
