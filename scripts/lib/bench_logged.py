"""Jobs under message logging, for `scripts/bench logging`: what it costs without failures, and how a killed rank comes back.

All ranks run on the four virtual hosts and are bound to no core; what they, `ringwatchd` and the spare compute is paid by the
same cores, so that a ratio has all of the cost.
"""

import glob
import os
import re
import statistics
import struct
import subprocess
import sys
import time

import bench_job as job
from bench_job import WORK
from bench_times import Median
from lab import HOSTS, processes

RANKS = 4
LIMIT = 300  # seconds that one program may take
THREAD = "ringwatch-outpu"  # of a process that is a rank, from the end of its MPI_Init on

# What it is, its arguments, those of a short run, the share of events that depend on time, the bound of the cost, and what the
# thesis has with parallel Paxos and 16 to 128 processes (sections 5.3.2 to 5.3.4): in words, and at most.
PROGRAMS = (
    ("multigrid", ("10", "20", "2000"), ("9", "10", "2000"), "0.05 %", 1.02, "below 1.013 (AMG)", 1.013),
    ("wavefront", ("1600", "20"), ("960", "10"), "0.6 %", 1.02, "no difference (LU)", 1),
    ("gusfield", ("1000", "10000"), ("1000", "5000"), "all of the master", 1.10, "no difference", 1),
    ("multigrid", ("10", "20", "1"), ("9", "10", "1"), "99.9 %", 1.10, "1.014 to 1.243 (MG, class C)", 1.243),
    ("polling", ("20000", "40", "5"), ("20000", "20", "2"), "99.9 %", 1.10, "1.014 to 1.243 (MG, class C)", 1.243),
)


def compile_examples():
    for name in sorted({name for name, *_ in PROGRAMS}):
        subprocess.run(["mpicc", "-std=gnu11", "-O2", "-o", f"{WORK}/{name}", f"/src/examples/{name}.c", "-lm"], check=True)
    subprocess.run(["mpicc", "-std=gnu11", "-O2", "-o", f"{WORK}/replaced", "/src/scripts/lib/bench/replaced.c"], check=True)


def start(words, spares=None, tells=False):
    """An mpirun, with message logging if there is a number of spares; `tells` whether the program says how long it took."""
    logging = [] if spares is None else ["--mca", "hook_ringwatch_recovery", "log", "--mca", "hook_ringwatch_spares", str(spares)]
    slots = ",".join(f"{host}:2" for host in HOSTS)
    command = ["rw-on", HOSTS[0], "mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "--with-ft", "ulfm",
               "--pmixmca", "psensor_ringwatch_period", "10ms", "--pmixmca", "psensor_ringwatch_timeout", "500ms",
               "-H", slots, "-n", str(RANKS + (spares or 0)), "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
               *logging, *(["-x", "TELL_TIME=yes"] if tells else []), *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(mpirun, what):
    """Standard output and standard error of one that has to end well."""
    try:
        output, errors = mpirun.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        sys.exit(f"bench: {what} did not end within {LIMIT} s")
    finally:
        job.clean_up(mpirun)
    if mpirun.returncode:
        sys.exit(f"bench: {what} ended with status {mpirun.returncode}:\n{errors}")
    return output, errors


def seconds_told(name, errors):
    found = re.search(rf"{name}: ([0-9.]+) s", errors)
    return float(found[1]) if found else sys.exit(f"bench: {name} does not say how long it took:\n{errors}")


# --- without failures --------------------------------------------------------


def cost(options, quiet):
    """Each program with and without message logging in turn: rows of a table, goals, and rows of figures."""
    rows = [("program", "events that depend on time", "without, s", "with, s", "with / without", "thesis")]
    goals, figures = [], []
    for name, words, few_words, share, bound, published, _ in PROGRAMS:
        words = few_words if options.quick else words
        ratios, pairs, outputs = [], [], set()
        for number in range(options.runs):
            job.note(f"  cost: {name} {' '.join(words)}: {number + 1} of {options.runs}")
            quiet.wait()
            times = {}
            # In turn, each first as often as the other.
            for spares in ((None, 1) if number % 2 == 0 else (1, None)):
                output, errors = finish(start([f"{WORK}/{name}", *words], spares, tells=True), name)
                times[spares] = seconds_told(name, errors)
                outputs.add(output)
            pairs.append((times[None], times[1]))
            ratios.append(times[1] / times[None])
            figures.append({"part": "cost", "what": f"{name} {' '.join(words)}", "run": number, "without": times[None],
                            "with": times[1]})
        if len(outputs) != 1:
            sys.exit(f"bench: {name} does not print the same in all runs")
        ratio = Median(ratios)
        without, logged = (statistics.median(column) for column in zip(*pairs))
        show = "{:.3f}".format
        rows.append((f"{name} {' '.join(words)}", share, show(without), show(logged), ratio.text(show), published))
        goals.append((f"{name} {' '.join(words)}, with / without", ratio, show, bound))
    return rows, goals, figures


# --- with a failure ----------------------------------------------------------

STEPS, WORDS_OF_RECORD = 8190, 3 + 2 * 8190 + 1
RECORD = struct.Struct(f"={WORDS_OF_RECORD}q")


class Times:
    """What one rank of `replaced` has written, in ns."""

    def __init__(self, data):
        self.begun_first, self.begun_last, self.killed_at = data[:3]
        self.first, self.last = data[3:3 + STEPS], data[3 + STEPS:3 + 2 * STEPS]


def replace_once(steps, at, work):
    """One job in which rank 1 dies after a step: times in ms."""
    path, victim = f"{WORK}/times", 1
    with open(path, "wb") as f:
        f.truncate(RECORD.size * RANKS)
    finish(start([f"{WORK}/replaced", path, steps, victim, at, work], 1), "replaced")
    with open(path, "rb") as f:
        ranks = [Times(RECORD.unpack(f.read(RECORD.size))) for _ in range(RANKS)]
    dead, partner = ranks[victim], ranks[victim ^ 1]
    new, milli = partner.first[at + 1], 1e-6
    replay = dead.last[at] - dead.begun_last
    gaps = lambda rank, begin, end: [b - a for a, b in zip(rank.first, rank.first[1:steps]) if begin <= b and a <= end]
    others = ranks[2:]
    before = [gap for rank in others for gap in gaps(rank, rank.first[0], dead.killed_at)]
    after = [gap for rank in others for gap in gaps(rank, dead.killed_at, new)]
    return {
        "begins": (dead.begun_last - dead.killed_at) * milli,
        "new": (new - dead.killed_at) * milli,
        "beside replay": (new - dead.killed_at - replay) * milli,
        "replay": replay * milli,
        "replay ratio": replay / (dead.first[at] - dead.begun_first),
        "standstill": max(after, default=0) * milli,
        "usual": statistics.quantiles(before, n=100)[98] * milli,
    }


def rank_of(pid):
    with open(f"/proc/{pid}/environ") as f:
        words = dict(line.split("=", 1) for line in f.read().split("\0") if "=" in line)
    return int(words.get("PMIX_RANK", -1))


def is_rank(pid):
    try:
        return any(open(name).read().strip() == THREAD for name in glob.glob(f"/proc/{pid}/task/*/comm"))
    except OSError:
        return False


def run_and_kill(name, words, victim, after):
    """Time in s from the moment in which all ranks run to the end of mpirun; rank `victim` dies after so long, if it is one."""
    mpirun = start([f"{WORK}/{name}", *words], 1)
    while len(found := [pid for pid, (_, _, what) in processes().items() if what == name and is_rank(pid)]) < RANKS:
        if mpirun.poll() is not None:
            break
        time.sleep(0.005)
    began = time.monotonic()
    if victim is not None:
        time.sleep(after)
        job.kill({rank_of(pid): pid for pid in found}[victim])
    output, _ = finish(mpirun, name)
    return time.monotonic() - began, output


def recovery(options, quiet):
    """Deaths: rows of tables, goals, and rows of figures."""
    kills, steps = (3, 1000) if options.quick else (20, 2000)
    at, work, found = steps // 2, 100, []
    for number in range(kills):
        job.note(f"  recovery: death {number + 1} of {kills}")
        quiet.wait()
        found.append(replace_once(steps, at, work))
    show, column = "{:.1f}".format, lambda what: [one[what] for one in found]
    rows = [(f"a rank dies after {at:,} steps, {kills} times, ms", "", "median", "worst")]
    for what, text in (("begins", "from the death to the replacement's main"), ("replay", "replay"),
                       ("new", "from the death to the first new message"),
                       ("beside replay", "the same less the replay"),
                       ("standstill", "longest step of the ranks that need neither"),
                       ("usual", "of 100 steps of theirs before it the longest")):
        rows.append((text, "", show(statistics.median(column(what))), show(max(column(what)))))
    ratio = column("replay ratio")
    rows.append(("replay over the original run", "", f"{statistics.median(ratio):.2f}", f"{max(ratio):.2f}"))
    goals = [("first new message less the replay, ms", Median(column("beside replay")), show, 100),
             ("the worst of them, ms", Median([max(column("beside replay"))]), show, 500),
             ("replay over the original run", Median(ratio), "{:.2f}".format, 0.7),
             ("standstill of the others, ms", Median(column("standstill")), show, 50)]
    figures = [{"part": "recovery", "what": what, "run": number, "value": value}
               for number, one in enumerate(found) for what, value in one.items()]
    return rows, goals, figures


# Of Gusfield's algorithm with a death and no checkpoint, 32 and 64 processes (figure 5.11).
PUBLISHED_WHOLE = {0: "1.15 and 1.09", 2: "more than the master's, in a figure only"}


def whole(options, quiet):
    """The cut tree with a death half-way over one without: rows of a table, and rows of figures."""
    words = ("1000", "5000") if options.quick else ("1000", "20000")
    runs, figures = max(2, options.runs // 2), []
    ratios = {victim: [] for victim in PUBLISHED_WHOLE}
    for number in range(runs):
        quiet.wait()
        calm, expected = run_and_kill("gusfield", words, None, 0)
        for victim, values in ratios.items():
            job.note(f"  recovery: gusfield without rank {victim}: {number + 1} of {runs}")
            time_taken, output = run_and_kill("gusfield", words, victim, calm / 2)
            if output != expected:
                sys.exit("bench: the cut tree is another one after a death")
            values.append(time_taken / calm)
            figures.append({"part": "recovery", "what": f"gusfield without rank {victim}", "run": number, "value": values[-1]})
    rows = [(f"gusfield {' '.join(words)}, a death half-way", "", "over a run without", "thesis")]
    rows += [("the master" if victim == 0 else "a worker", "", Median(values).text("{:.2f}".format), PUBLISHED_WHOLE[victim])
             for victim, values in ratios.items()]
    return rows, figures
