"""Jobs with replicated ranks, for `scripts/bench replication --part jobs`: what the methods cost small programs with the
communication of the NAS Parallel Benchmarks (examples/kernels.c).

All processes run on the four virtual hosts and are bound to no core, over links of 500 us: programs that wait for messages
leave the cores to the replicas. Two replicas of a program that computes take twice the time: the cores of one machine carry all.
Frames and bytes are those between the hosts.
"""

import re
import statistics
import subprocess
import sys

import bench_job as job
from bench_job import WORK
from bench_times import FAR, Median, lengthen, line
from lab import HOSTS

RANKS = 4
LIMIT = 300  # seconds that one program may take
METHODS = ("alltoall", "async", "msgplushash", "asynchash")
KINDS = [(method, replicas) for method in METHODS for replicas in (2, 3)]
# Size and iterations, and those of a short run.
KERNELS = {
    "cg": (("100000", "60"), ("40000", "10")),
    "ep": (("500000", "8"), ("200000", "3")),
    "ft": (("512", "30"), ("256", "5")),
    "is": (("200000", "20"), ("50000", "5")),
    "lu": (("1000", "10"), ("400", "4")),
}


def named(kind):
    return f"{kind[0]} x{kind[1]}" if kind else "none"


def sent():
    """Bytes and frames that all hosts have sent."""
    totals = [0, 0]
    for host in HOSTS:
        text = subprocess.run(["rw-on", host, "cat", "/proc/net/dev"], capture_output=True, text=True, check=True).stdout
        words = re.search(r"eth0:(.*)", text)[1].split()
        totals = [totals[0] + int(words[8]), totals[1] + int(words[9])]
    return totals


def run(name, words, kind):
    """One job: what it prints, and its figures."""
    method, replicas = kind or ("", 1)
    options = ["--mca", "hook_ringwatch_recovery", "replicate", "--mca", "hook_ringwatch_replicas", str(replicas),
               "--mca", "hook_ringwatch_replicas_method", method] if kind else []
    slots = ",".join(f"{host}:{RANKS * replicas // len(HOSTS)}" for host in HOSTS)
    command = ["rw-on", HOSTS[0], "mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "--with-ft", "ulfm",
               "-H", slots, "-n", str(RANKS * replicas), "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", *options,
               "-x", "TELL_TIME=yes", f"{WORK}/kernels", name, *words]
    before = sent()
    mpirun = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = mpirun.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        sys.exit(f"bench: kernels {name} with {named(kind)} did not end within {LIMIT} s")
    finally:
        job.clean_up(mpirun)
    times = re.findall(r"kernels: ([0-9.]+) s", errors)
    used = re.findall(r"kernels used: ([0-9.]+) s, ([0-9]+) KiB", errors)
    if mpirun.returncode or not times or len(used) != RANKS * replicas:
        sys.exit(f"bench: kernels {name} with {named(kind)} ended with status {mpirun.returncode}:\n{errors}")
    size, frames = (after - then for after, then in zip(sent(), before))
    return output, {"seconds": max(map(float, times)), "bytes": size, "frames": frames,
                    "processor": statistics.mean(float(seconds) for seconds, _ in used),
                    "memory": max(int(memory) for _, memory in used)}


def measure(options, quiet):
    """Rows of figures, run by run in turn."""
    rows = []
    runs = 2 if options.quick else 5
    for name, sizes in KERNELS.items():
        words, outputs = sizes[options.quick], {}
        for number in range(runs):
            for kind in [None, *KINDS]:
                job.note(f"  {name}, {named(kind)}: {number + 1} of {runs}")
                quiet.wait()
                output, figures = run(name, words, kind)
                # Open MPI's own collective operations may add in another order.
                outputs.setdefault(kind is None, set()).add(output)
                rows.append({"part": "jobs", "program": name, "words": " ".join(words), "method": kind[0] if kind else "none",
                             "replicas": kind[1] if kind else 1, "run": number, **figures})
        if any(len(different) != 1 for different in outputs.values()):
            sys.exit(f"bench: {name} does not print the same in all runs: {outputs}")
    return rows


def column(rows, name, kind, what):
    method, replicas = kind or ("none", 1)
    return [row[what] for row in rows if (row["program"], row["method"], row["replicas"]) == (name, method, replicas)]


def ratios(rows, name, kind):
    return [time / none for time, none in zip(column(rows, name, kind, "seconds"), column(rows, name, None, "seconds"))]


def times(rows):
    table = [("", "arguments", "none, s", *map(named, KINDS))]
    for name in KERNELS:
        words = next(row["words"] for row in rows if row["program"] == name)
        table.append((name, words, f"{statistics.median(column(rows, name, None, 'seconds')):.3f}",
                      *(Median(ratios(rows, name, kind)).text("{:.2f}".format) for kind in KINDS)))
    return table


def costs(rows):
    table = [("", "method", "MB between hosts", "frames", "processor s", "most memory, MiB")]
    for name in KERNELS:
        for kind in [None, *KINDS]:
            median = lambda what: statistics.median(column(rows, name, kind, what))
            table.append((name, named(kind), f"{median('bytes') / 1e6:,.1f}", f"{median('frames'):,.0f}",
                          f"{median('processor'):.2f}", f"{median('memory') / 1024:.0f}"))
    return table


def gains(rows):
    for replicas, published in ((2, "3 to 74 %"), (3, "up to 79 %")):
        gain = {name: 1 - statistics.median(column(rows, name, ("async", replicas), "seconds"))
                / statistics.median(column(rows, name, ("alltoall", replicas), "seconds")) for name in KERNELS}
        text = ", ".join(f"{name} {value:.0%}" for name, value in gain.items())
        yield f"  async better than alltoall, x{replicas}: {text}; the thesis: {published}"


def chart(rows):
    series = []
    for colour, method in enumerate(METHODS):
        points = [(number, statistics.median(ratios(rows, name, (method, 2)))) for number, name in enumerate(KERNELS, 1)]
        series.append(line(method, colour, "dots", points))
    return {"title": "Jobs with two replicas", "subtitle": f"Measured, {RANKS} ranks on 4 virtual hosts: {', '.join(KERNELS)}",
            "x": "program", "y": "time over that without replicas", "log": False, "series": series}


def main(options):
    """Prints the tables. Returns rows of figures, and charts."""
    quiet = job.Quiet(options.patience)
    job.prepare()
    job.install(True)
    # A frame goes over the links of two hosts.
    lengthen(HOSTS, FAR // 2)
    subprocess.run(["mpicc", "-std=gnu11", "-O2", "-o", f"{WORK}/kernels", "/src/examples/kernels.c", "-lm"], check=True)
    print(f"\nJobs: {RANKS} ranks on 4 virtual hosts over TCP and links of {FAR} us, MEASURED. The cores of one machine carry all"
          " replicas.")
    print("\n".join(job.machine() + job.autogroups()), flush=True)
    rows = measure(options, quiet)
    print("\nTime over that without replicas, medians, in brackets the interval with 95 %, of few runs all.")
    print("\n".join(job.table(times(rows))))
    print("\nWhat else it takes, medians: bytes and frames of the whole job with its start; of a process the mean of the processor"
          " time\nand the most memory of any.")
    print("\n".join(job.table(costs(rows))))
    print("\n".join(["", *gains(rows), quiet.summary()]))
    return rows, [chart(rows)]
