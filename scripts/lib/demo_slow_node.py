"""The demonstration of a slow node, inside the container: examples/hyperquicksort.c, while others work on one host.

All processes of h3 get only the time that nobody else wants (SCHED_IDLE), and other work takes all processors, as when a node
of a cluster is shared. When the others go on without them the work ends, and they come back.
"""

import os
import re
import shutil
import subprocess
import sys
import time

from lab import HOSTS, note, processes

NAME = "slow-node"
RANKS = 16
SLOW = "h3"
NUMBERS, PAUSE, INTERVAL = 20_000, 3000, 100  # numbers on each process; milliseconds
LIMIT = 120  # seconds
WORK = "/tmp/rw-demo"
ROUND = re.compile(r"^round (\d+) of (\d+): (\d+) of \d+ processes, epoch \d+(.*)$")


def command(folder):
    where = ",".join(f"{host}:{RANKS // len(HOSTS)}" for host in HOSTS)
    return ["/usr/local/bin/rw-on", HOSTS[0], "mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh",
            "--with-ft", "ulfm", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-H", where, "-n", str(RANKS),
            f"{WORK}/hyperquicksort", "group", folder, str(NUMBERS), str(PAUSE), "true", str(INTERVAL)]


def schedule(policy):
    """By this policy, all threads of the processes of the slow host."""
    for pid, (host, _, name) in processes().items():
        if host == SLOW and name == "hyperquicksort":
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setscheduler(int(task), policy, os.sched_param(0))


def burden():
    """Takes the processors from the processes of the slow host. Returns the other work."""
    schedule(os.SCHED_IDLE)
    return [subprocess.Popen(["bash", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]


def run():
    """Returns 0 if all held, else 1."""
    folder = f"{WORK}/{NAME}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f"{folder}/slots")
    words = ["mpicc", "-std=gnu11", "-O2", "-o", f"{WORK}/hyperquicksort", "/src/examples/hyperquicksort.c", "-lringwatch"]
    subprocess.run(words, check=True)
    print(f"\n{NAME}")
    struck, others, rows, seen, sizes = None, [], [], 0, []
    with open(f"{folder}/output", "wb") as output:
        job = subprocess.Popen(command(f"{folder}/slots"), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    began = time.monotonic()
    try:
        while (ended := job.poll() is not None) or time.monotonic() - began < LIMIT:
            now = time.monotonic()
            lines = open(f"{folder}/output", errors="replace").read().splitlines()
            for line in lines[seen:]:
                found = ROUND.match(line)
                if not found:
                    continue
                sizes.append(int(found[3]))
                if struck is None:
                    others, struck = burden(), time.monotonic()
                    rows.append((0, f"others work on {SLOW}, in round {found[1]} with {found[3]} processes"))
                    continue
                out = re.findall(r"(?:out|dead) (\d+)", found[4])
                rows.append((now - struck, f"round {found[1]} begins with {found[3]} processes"
                             + (f", without ranks {', '.join(out)}" if out else "")))
                if others and int(found[3]) < RANKS:
                    for other in others:
                        other.kill()
                    others = []
                    schedule(os.SCHED_OTHER)
                    rows.append((time.monotonic() - struck, f"the others' work on {SLOW} has ended"))
            seen = len(lines)
            if ended:
                break
            note(f"  {NAME}: {now - began:.0f} s")
            time.sleep(0.02)
    finally:
        for other in others:
            other.kill()
        if job.poll() is None:
            job.kill()
    note("")
    for seconds, text in rows:
        print(f"  {'+' + format(seconds, '.2f') + ' s':>12}  {text}")
    result = next((line for line in lines if " lists: " in line), "none")
    left = any(size < RANKS for size in sizes)
    back = left and sizes[-1] == RANKS
    wrong = [text for holds, text in ((job.poll() == 0, f"mpirun's status is {job.poll()}"),
                                      (left, f"no process of {SLOW} has left the group"),
                                      (back, "not all have come back"),
                                      (result.endswith("sorted, all there"), "the result is wrong")) if not holds]
    print(f"  result: {result}; mpirun: status {job.poll()}")
    print("  => " + ("; ".join(wrong) if wrong else "the others went on, and took the slow ones back: all held"))
    for line in lines[-15:] if wrong else []:
        print("     | " + line)
    sys.stdout.flush()
    return 1 if wrong else 0
