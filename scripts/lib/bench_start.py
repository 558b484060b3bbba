"""`scripts/bench start`: from mpirun to the last rank out of MPI_Init, ringwatch and stock, by nodes and by ranks."""

import csv
import glob
import json
import mmap
import os
import statistics
import struct
import subprocess
import sys
import time

import bench_job as job
from bench_job import WORK
from lab import HOSTS, clean_up, processes

SOURCE = "/src/scripts/lib/bench/start.c"
HISTORY = "/tmp/rw-bench/state"
RECORD = struct.Struct("=4q")
TABLE_SIZE = 512 * RECORD.size
SYSTEMS = {  # text: parameters; None is stock
    "stock": None,
    "ringwatch": {},
    "ringwatch 10/100": {"period": "10ms", "timeout": "100ms"},
}
STEPS = ("daemons", "ring", "init", "all")
PROCESSES = ("prted", "supervisors", "ringwatchd", "ranks")


class Place:
    """Where the ranks are."""

    def __init__(self, nodes, ranks):
        self.nodes, self.ranks = nodes, ranks

    def __str__(self):
        return f"{self.nodes} nodes, a rank each" if self.nodes > 1 else f"{self.ranks} ranks on a host"


class Run:
    """One launch: steps in seconds since mpirun was started, processor seconds by process; None did not happen."""

    def __init__(self, place, system, number):
        self.place, self.system, self.number = place, system, number
        self.daemons = self.ring = self.init = self.all = None
        self.prted = self.supervisors = self.ringwatchd = self.ranks = None
        self.busy = 0.0
        self.problem = None

    def row(self):
        return [self.place.nodes, self.place.ranks, self.system, self.number, f"{self.busy:.2f}", self.problem or "",
                *(getattr(self, name) for name in STEPS + PROCESSES)]


def spent(tasks):
    """Seconds of the processors that these threads have had."""
    total = 0
    for task in tasks:
        try:
            with open(f"{task}/schedstat") as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def tasks_of(pid):
    try:
        return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def is_supervisor(task):
    try:
        with open(f"{task}/comm") as f:
            return f.read().strip() == "ringwatch"
    except OSError:
        return False


def processor_time(run, pids):
    """Fills in the processor time so far, by kind of process."""
    groups = {name: [] for name in PROCESSES}
    for pid, (_, _, name) in processes().items():
        tasks = tasks_of(pid)
        if pid in pids:
            groups["ranks"] += tasks
        elif name == "ringwatchd":
            groups["ringwatchd"] += tasks
        elif name in ("prted", "prterun", "mpirun"):
            own = [task for task in tasks if is_supervisor(task)]
            groups["supervisors"] += own
            groups["prted"] += [task for task in tasks if task not in own]
    for name, tasks in groups.items():
        setattr(run, name, spent(tasks))


def ring_closed(nodes, began):
    """Seconds after `began`, on the clock of the history, at which the last node was in the ring."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        at = {}
        for path in glob.glob(f"{HISTORY}/ringwatch/*.jsonl"):
            with open(path) as f:
                for line in f:
                    try:
                        record = json.loads(line)
                    except ValueError:
                        continue
                    if record.get("event") == "watching":
                        at.setdefault(record["node"], record["at_us"] / 1e6)
        if len(at) == nodes:
            return max(at.values()) - began
        time.sleep(0.05)
    return None


def launch(place, system, number, limit):
    parameters = SYSTEMS[system]
    job.install(parameters is not None)
    for path in glob.glob(f"{HISTORY}/ringwatch/*"):
        os.remove(path)
    run = Run(place, system, number)
    with open(f"{WORK}/table", "wb") as f:
        f.truncate(TABLE_SIZE)
    options = [w for name, value in (parameters or {}).items() for w in ("--pmixmca", f"psensor_ringwatch_{name}", value)]
    where = ",".join(f"{host}:{place.ranks // place.nodes}" for host in HOSTS[:place.nodes])
    words = ["rw-on", HOSTS[0], "mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "--with-ft", "ulfm", *options,
             "--bind-to", "none", "-H", where, "-n", str(place.ranks), f"{WORK}/start", f"{WORK}/table"]
    # Nobody's wait for the hosts to be quiet is part of it; what others do meanwhile is noted.
    busy_before = job.busy_share()
    run.busy = busy_before
    environment = os.environ | {"XDG_STATE_HOME": HISTORY}
    with open(f"{WORK}/table", "r+b") as f, open(f"{WORK}/output", "wb") as output:
        table = mmap.mmap(f.fileno(), TABLE_SIZE)
        began, began_on_history = time.monotonic_ns(), time.clock_gettime(time.CLOCK_BOOTTIME)
        mpirun = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        deadline = time.monotonic() + limit
        records = []
        while len(records) < place.ranks:
            records = [RECORD.unpack_from(table, rank * RECORD.size) for rank in range(place.ranks)]
            records = [record for record in records if record[2]]
            if len(records) == place.ranks:
                break
            if mpirun.poll() is not None:
                run.problem = "mpirun ended"
                return run
            if time.monotonic() > deadline:
                run.problem = f"not up after {limit:g} s"
                return run
            # Seldom: the ranks need the cores.
            time.sleep(0.01)
        processor_time(run, {record[0] for record in records})
        first, last = min(record[1] for record in records), max(record[2] for record in records)
        run.daemons, run.init, run.all = ((b - a) / 1e9 for a, b in ((began, first), (first, last), (began, last)))
        if parameters is not None:
            run.ring = ring_closed(place.nodes, began_on_history)
    finally:
        clean_up(mpirun)
        table.close()
    return run


def middle(runs, name):
    values = [getattr(run, name) for run in runs if getattr(run, name) is not None]
    return statistics.median(values) if values else None


def ratio(runs, system):
    """Median over the pairs of the time to the last rank, in times that of the stock run beside it."""
    stock = {run.number: run.all for run in runs if run.system == "stock" and run.all}
    pairs = [run.all / stock[run.number] for run in runs if run.system == system and run.all and run.number in stock]
    return statistics.median(pairs) if pairs else None


def text(value, form="{:.2f}"):
    return form.format(value) if value is not None else "-"


def report(runs, place, systems):
    here = [run for run in runs if run.place is place]
    rows = []
    for system in systems:
        own = [run for run in here if run.system == system]
        good = [run for run in own if not run.problem]
        times = "" if system == "stock" else text(ratio(here, system))
        rows.append((str(place), system, f"{len(good)}/{len(own)}", *(text(middle(good, name)) for name in STEPS), times,
                     *(text(middle(good, name)) for name in PROCESSES)))
    return rows


def main(options):
    places = [Place(nodes, nodes) for nodes in options.nodes] + [Place(1, ranks) for ranks in options.ranks]
    systems = options.system or list(SYSTEMS)
    HOSTS[:] = [f"h{n}" for n in range(1, max([4, *options.nodes]) + 1)]
    job.prepare()
    subprocess.run(["mpicc", "-std=gnu11", "-O2", "-Wall", "-o", f"{WORK}/start", SOURCE], check=True)
    quiet = job.Quiet(options.patience)
    print("\n".join(job.machine()))
    print("from mpirun to the last rank out of MPI_Init; seconds, medians; stock and ringwatch run by run in turn", flush=True)
    runs = []
    head = ("where", "system", "runs", "daemons up", "ring", "MPI_Init", "in all", "x stock",
            *(f"{name} cpu" for name in PROCESSES))
    rows = [head]
    for place in places:
        for number in range(options.runs):
            # What comes first in a round finds the caches of what came last: everything has every place.
            turn = number % len(systems)
            for system in systems[turn:] + systems[:turn]:
                job.note(f"  {place}, {system}, run {number + 1} of {options.runs}")
                quiet.wait()
                runs.append(launch(place, system, number, options.limit))
                if runs[-1].problem:
                    job.say(f"  {place}, {system}: {runs[-1].problem}")
        rows += report(runs, place, systems)
        job.say("\n".join("  " + line for line in job.table([head] + rows[-len(systems):])))
    print("\ndaemons up: to the first rank's main; ring: to the last node in the ring, both from mpirun; MPI_Init: from the first\n"
          "rank's main to the last rank out; x stock: median of the pairs; cpu: of all processes of a kind together, until then;\n"
          "supervisors: ringwatch's thread in prted and prterun. ringwatch 10/100: period 10 ms, timeout 100 ms.\n")
    print("\n".join(job.table(rows)))
    print("\n" + quiet.summary())
    if options.csv_fd is not None:
        with os.fdopen(options.csv_fd, "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(["nodes", "ranks", "system", "run", "busy_before", "problem", *STEPS, *PROCESSES])
            out.writerows(run.row() for run in runs)
    if all(run.problem for run in runs):
        sys.exit("bench: no job came up")
