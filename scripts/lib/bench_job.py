"""Jobs on the virtual hosts for the benchmarks: with ringwatch or without, started, watched, hit and cleaned up."""

import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

from lab import HOSTS, RANKS, clean_up, kill, note, parent, processes, set_link

AUTOGROUPS = "/proc/sys/kernel/sched_autogroup_enabled"
WORK = "/tmp/rw-bench"
SOURCE = "/src/scripts/lib/bench/survivor.c"
START_LIMIT = 30  # seconds in which every rank must be at work
FIELDS = ("pid", "error", "class_", "shrunk", "size", "done", "wrong", "unused")
RECORD = struct.Struct("=8q")
TABLE_SIZE = 512 * RECORD.size


def say(text):
    note("")
    print(text, file=sys.stderr, flush=True)


# --- the machine -------------------------------------------------------------


class Busy:
    """Share of all cores that is in use since it was made; stolen time counts as used."""

    def __init__(self):
        self.total, self.idle = self.read()

    @staticmethod
    def read():
        with open("/proc/stat") as f:
            values = [int(word) for word in f.readline().split()[1:9]]
        return sum(values), values[3] + values[4]

    def share(self):
        total, idle = self.read()
        return 1 - (idle - self.idle) / max(total - self.total, 1)


def busy_share(seconds=0.2):
    busy = Busy()
    time.sleep(seconds)
    return busy.share()


class Quiet:
    """Waits for moments in which nobody else computes, up to a limit for all of them together."""

    def __init__(self, patience):
        self.patience = patience
        self.shares = []

    def wait(self):
        """Returns the share of the cores in use at the end of the wait."""
        share = busy_share()
        while share > 0.1 and self.patience > 0:
            note(f"  the machine is busy ({share:.0%}), waiting")
            began = time.monotonic()
            time.sleep(0.8)
            share = busy_share()
            self.patience -= time.monotonic() - began
        self.shares.append(share)
        return share

    def disturbed(self):
        """At how many measurements others used the machine."""
        return sum(share > 0.1 for share in self.shares)

    def summary(self):
        disturbed = self.disturbed()
        if not disturbed:
            return "nobody else used the machine when the measurements were made"
        return (f"at {disturbed} of {len(self.shares)} measurements others used the machine "
                f"(up to {max(self.shares):.0%} of it): these figures are disturbed")


def first_words(command, pattern):
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return "?"
    match = re.search(pattern, output)
    return match[1] if match else "?"


def machine():
    """Lines that name what the figures were measured on."""
    with open("/proc/cpuinfo") as f:
        model = re.search(r"model name\s*:\s*(.*)", f.read())
    with open("/proc/meminfo") as f:
        memory = int(re.search(r"MemTotal:\s*(\d+)", f.read())[1]) / 2**20
    system = os.uname()
    return [
        f"machine: {os.cpu_count()} cores ({model[1] if model else system.machine}), {memory:.0f} GiB, "
        f"Linux {system.release}, load {os.getloadavg()[0]:.2f}",
        f"versions: Open MPI {first_words(['mpirun', '--version'], r'([0-9]+[.][0-9.]+)')}, "
        f"PMIx {first_words(['pmix_info'], r'PMIX: ([0-9.]+)')}, "
        f"PRRTE {first_words(['prterun', '--version'], r'([0-9]+[.][0-9.]+)')}, "
        f"ringwatch {first_words([f'{WORK}/build/ringwatchd', '--version'], r'([0-9]+[.][0-9.]+)')}",
    ]


def autogroups():
    """What the kernel's autogroups do to the figures, in lines, where they are on."""
    try:
        with open(AUTOGROUPS) as f:
            on = f.read().strip() == "1"
    except OSError:
        on = False
    return ["the kernel's autogroups are on: Linux 6.18 may keep a rank that polls from every core for seconds (40 s were seen)",
            "where ranks outnumber the cores, so maxima of seconds are the scheduler's; 'sysctl kernel.sched_autogroup_enabled=0'",
            "switches them off"] if on else []


def table(rows):
    """Rows of text as aligned lines, the first two columns to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def span(nanoseconds):
    """A time for people: three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


# --- preparing ---------------------------------------------------------------


def prepare():
    """Hosts, the program, and a copy of the build, which a build at the same time must not change."""
    os.makedirs(f"{WORK}/build")
    build = f"{os.environ['CARGO_TARGET_DIR']}/release"
    for name in ("libringwatch_pmix.so", "libringwatch_clocks.so", "libringwatch_mpi.so", "libringwatch.so",
                 "ringwatchd", "ringwatch"):
        shutil.copy(f"{build}/{name}", f"{WORK}/build/{name}")
    subprocess.run(["mpicc", "-std=gnu11", "-O2", "-Wall", "-o", f"{WORK}/survivor", SOURCE], check=True)
    subprocess.run(["rw-hosts", "up", str(len(HOSTS))], check=True)


def install(wanted):
    """Puts ringwatch beside the MPI, or takes it away: stock means stock."""
    if wanted != install.done:
        words = ["/src/scripts/install", "--from", f"{WORK}/build"] if wanted else ["/src/scripts/uninstall"]
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        if result.returncode:
            sys.exit(f"bench: {' '.join(words)} failed: {result.stderr.strip()}")
        install.done = wanted


install.done = None


# --- a job -------------------------------------------------------------------


class Record:
    """What one rank wrote."""

    def __init__(self, values):
        for name, value in zip(FIELDS, values):
            setattr(self, name, value)


class Job:
    """One mpirun; `what` is the program's second argument, `under` a command that starts the program, `ranks` and `hosts` where
    it runs."""

    def __init__(self, what, options=(), under=(), ranks=RANKS, hosts=HOSTS):
        self.ranks = ranks
        self.path = f"{WORK}/table"
        with open(self.path, "wb") as f:
            f.truncate(TABLE_SIZE)
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), TABLE_SIZE)
        where = ",".join(f"{host}:{ranks // len(hosts)}" for host in hosts)
        words = ["rw-on", hosts[0], "mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "--with-ft", "ulfm",
                 *options, "-H", where, "-n", str(ranks), *under, f"{WORK}/survivor", self.path, what]
        with open(f"{WORK}/output", "wb") as output:
            self.mpirun = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def records(self):
        return [Record(RECORD.unpack_from(self.map, rank * RECORD.size)) for rank in range(self.ranks)]

    def wait(self, condition, seconds):
        """Until `condition` holds for the records, the job ends, or time is over. Returns whether it held."""
        deadline = time.monotonic() + seconds
        while not (held := condition(self.records())):
            if self.mpirun.poll() is not None or time.monotonic() > deadline:
                return condition(self.records())
            # Seldom: the ranks need the cores.
            time.sleep(0.005)
        return held

    def at_work(self):
        """Waits until every rank is at work."""
        return self.wait(lambda records: all(record.pid for record in records), START_LIMIT)

    def end(self, seconds):
        """Waits for mpirun; its exit status, or None if it did not end in time."""
        try:
            return self.mpirun.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def output(self):
        with open(f"{WORK}/output", errors="replace") as f:
            return f.read()

    def clean_up(self):
        """Ends whatever is left and removes what it left behind."""
        clean_up(self.mpirun)
        set_link(HOSTS[-1], True)
        self.map.close()


def daemon_of(record):
    """Process number of the prted or prterun that started a rank."""
    return parent(record.pid)


# --- faults ------------------------------------------------------------------


def strike(pids, number):
    """A deed that sends these processes a signal; it returns the time right before."""
    def deed():
        at = time.monotonic_ns()
        for pid in pids:
            os.kill(pid, number)
        return at
    return deed


def strike_ranks(number):
    return lambda records, victims: strike([records[rank].pid for rank in victims], number)


def strike_prted(number):
    """The runtime daemon that has started the victims."""
    return lambda records, victims: strike([parent(records[victims[0]].pid)], number)


def kill_node(_records, victims):
    """Everything on the host of the victims, the daemons first: a node that dies has nobody to report its ranks."""
    host = HOSTS[victims[0] * len(HOSTS) // RANKS]
    order = ["ringwatchd", "prted"]
    pids = sorted((order.index(name) if name in order else len(order), pid)
                  for pid, (where, _, name) in processes().items() if where == host)

    def deed():
        at = time.monotonic_ns()
        for _, pid in pids:
            kill(pid)
        return at
    return deed


def cut_link(_records, victims):
    host = HOSTS[victims[0] * len(HOSTS) // RANKS]

    def deed():
        at = time.monotonic_ns()
        set_link(host, False)
        return at
    return deed


kill_ranks = strike_ranks(signal.SIGKILL)
stop_rank = strike_ranks(signal.SIGSTOP)
kill_prted = strike_prted(signal.SIGKILL)
stop_prted = strike_prted(signal.SIGSTOP)
