#!/usr/bin/env python3
"""ispawns: two ranks spawn two more with ringwatch.ispawn, and connect to each other, without blocking.

Each of the first two prints "spawned SIZE" of the merged communicator and "connected SIZE" of the other side.
"""
import sys

import ringwatch
from mpi4py import MPI

world = MPI.COMM_WORLD
parents = MPI.Comm.Get_parent()
if parents != MPI.COMM_NULL:
    parents.Merge(True).Barrier()
    parents.Disconnect()
    sys.exit()
spawned, request = ringwatch.ispawn(world, sys.executable, [__file__], 2)
# In the middle of it, collective operations on the same communicator.
total = world.allreduce(1)
request.Wait()
everybody = spawned.Merge(False)
everybody.Barrier()
print("spawned", everybody.size * total // 2)
spawned.Disconnect()
alone = world.Split(world.rank)
port = world.bcast(MPI.Open_port() if world.rank == 0 else None)
begin = ringwatch.iaccept if world.rank == 0 else ringwatch.iconnect
other, request = begin(alone, port)
request.Wait()
print("connected", other.remote_size)
other.Disconnect()
