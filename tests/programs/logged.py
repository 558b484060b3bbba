"""As logged.c, in Python: lower-case functions, which probe for a message and take it out, and a buffer."""

import os
import signal
import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
folder, victim, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
half = comm.Split(rank % 2, rank)
mine, total = array("d", [rank + 1.0]), 0
for step in range(100):
    if rank == victim and step == last:
        try:
            os.close(os.open(f"{folder}/killed", os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    total += comm.allreduce(step + rank) + half.allreduce(rank)
    result = array("d", [0.0])
    comm.Allreduce(mine, result)
    mine[0] = result[0] / size + rank * 0.01
    total += comm.sendrecv({"step": step}, (rank + 1) % size, 0, None, (rank - 1) % size, 0)["step"]
    if rank == 0 and step % 25 == 0:
        print("step", step, total, flush=True)
ends = comm.gather(mine[0])
if rank == 0:
    print("end", total, ends)
