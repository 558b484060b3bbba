"""As saves.c, in Python, with a buffer and an object: saves.py FOLDER STEPS EVERY VICTIM STEP"""

import os
import signal
import sys
from array import array

import ringwatch
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
folder, steps, every, victim, last = sys.argv[1], *map(int, sys.argv[2:6])
total, mine = array("q", [sum(comm.allgather(1))]), array("d", [rank + 1.0])
if rank == 0:
    print(size, "ranks")
ringwatch.checkpoint_begin()
ringwatch.checkpoint_register(0, total)
ringwatch.checkpoint_register(1, mine)
first = ringwatch.checkpoint_restore()
for step in range(0 if first is None else first + 1, steps):
    if rank == victim and step == last:
        try:
            os.close(os.open(f"{folder}/saves.py", os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    total[0] += sum(comm.allgather(step + rank))
    total[0] += comm.sendrecv({"step": step}, (rank + 1) % size, 0, None, (rank - 1) % size, 0)["step"]
    result = array("d", [0.0])
    comm.Allreduce(mine, result)
    mine[0] = result[0] / size + rank * 0.01
    if rank == 0 and step % 25 == 0:
        print("step", step, total[0])
    if step % every == rank % every:
        ringwatch.checkpoint_save(step)
ends = comm.gather(mine[0])
if rank == 0:
    print("end", total[0], ends)
ringwatch.checkpoint_end()
