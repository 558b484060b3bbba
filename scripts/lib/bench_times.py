"""Programs that measure themselves inside MPI: where their ranks run, their times, and what follows from those."""

import json
import math
import operator
import os
import random
import statistics
import subprocess
import sys

import bench_job as job
from bench_job import WORK
from lab import HOSTS

FOLDER = "/src/scripts/lib/bench"
LIMIT = 300  # seconds that one program may take
MIB = 1 << 20
FAR = 500  # delay of a long link, in us each way


class Place:
    """Where the ranks are, and what they do while they wait; `delay`: of a frame between two hosts, in us."""

    def __init__(self, ranks, hosts, delay=0):
        self.ranks, self.hosts, self.delay = ranks, hosts, delay
        self.bound = hosts == 1 and ranks <= os.cpu_count()

    def __str__(self):
        where = "one virtual host, shared memory" if self.hosts == 1 else f"{self.hosts} virtual hosts in turn, TCP"
        where += f" over a link that takes {self.delay} us each way" if self.delay else ""
        how = "each bound to a core of its own, which it does not yield while it polls" if self.bound else \
            f"bound to none of {os.cpu_count()} cores, which they yield while they poll (mpi_yield_when_idle)"
        return f"{self.ranks} ranks on {where}; {how}"

    def name(self):
        """The same in a few words."""
        if self.hosts == 1:
            return "shared memory"
        return f"link of {self.delay} us" if self.delay else f"{self.hosts} hosts"

    def lengthen(self):
        """Makes the link of the first host as long as it has to be."""
        lengthen(HOSTS[:1], self.delay)

    def words(self, count):
        """Options of mpirun for so many ranks."""
        slots = -(-count // self.hosts)
        # A rank that is there only to be lost shares a core until then: the last one, so the others go to the cores in turn.
        mapping = ("--map-by", "core:OVERSUBSCRIBE", "--rank-by", "span", "--bind-to", "core:overload-allowed") if self.bound else \
            ("--map-by", "node:OVERSUBSCRIBE", "--bind-to", "none")
        return ["-H", ",".join(f"{host}:{slots}" for host in HOSTS[:self.hosts]), "-n", str(count), *mapping,
                "--mca", "mpi_yield_when_idle", str(int(not self.bound))]


def lengthen(hosts, delay):
    """Makes the links of these hosts so long that a frame takes `delay` us on each of them, both ways."""
    subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-pthread", "-D_GNU_SOURCE", "-o", f"{WORK}/delay",
                    f"{FOLDER}/delay.c"], check=True)
    # Packets as large as InfiniBand's: the fewer there are, the less do they take of the processors.
    large, many = ["mtu", "65520"], ["txqueuelen", "10000", "up"]
    for other in (other for other in HOSTS if other not in hosts):
        subprocess.run(["ip", "link", "set", "v" + other[1:], *large], check=True)
        subprocess.run(["ip", "-n", other, "link", "set", "eth0", *large], check=True)
    for host in hosts:
        port = "v" + host[1:]
        address = subprocess.run(["ip", "-n", host, "-4", "-brief", "address", "show", "eth0"], capture_output=True,
                                 text=True, check=True).stdout.split()[2]
        subprocess.run(["ip", "link", "delete", port], check=True)
        link = subprocess.Popen([f"{WORK}/delay", host, port, str(delay)], stdout=subprocess.PIPE, text=True)
        if link.stdout.readline() != "ready\n":
            sys.exit("bench: no long link can be made here (see above): measure without one, with scopes --hosts 1 or"
                     " replication --part simulated")
        subprocess.run(["ip", "link", "set", port, "master", "rw0", *large, *many], check=True)
        subprocess.run(["ip", "-n", host, "address", "add", address, "dev", "eth0"], check=True)
        subprocess.run(["ip", "-n", host, "link", "set", "eth0", *large, *many], check=True)


def compile_program(name, *libraries):
    """Builds a program of the folder `bench`; ringwatch must be installed for its own library."""
    words = ["mpicc", "-std=gnu11", "-O2", "-Wall", "-o", f"{WORK}/{name}", f"{FOLDER}/{name}.c", *libraries]
    subprocess.run(words, check=True)


def run(name, arguments, place, victims=0):
    """What a program measured, {(what, variant, size): times in ns, by round}; `victims`: ranks that it loses first.

    A list among the arguments is one word for the program."""
    words = [",".join(map(str, word)) if isinstance(word, (list, tuple)) else str(word) for word in arguments]
    command = [f"{WORK}/{name}", *words]
    words = ["rw-on", HOSTS[0], "mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "--with-ft", "ulfm",
             *place.words(place.ranks + victims), *command]
    mpirun = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
    try:
        output = mpirun.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        sys.exit(f"bench: {' '.join(command)} did not end within {LIMIT} s")
    finally:
        job.clean_up(mpirun)
    times = {}
    for line in output.splitlines():
        fields = line.split(",")
        if len(fields) == 4 and fields[2].isdigit():
            times.setdefault((fields[0], fields[1], int(fields[2])), []).append(float(fields[3]))
    if mpirun.returncode or not times:
        sys.exit(f"bench: {' '.join(command)} ended with status {mpirun.returncode}:\n{output}")
    return times


def size_text(size):
    for unit, power in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size >> power} {unit}"
    return f"{size} B"


class Estimate:
    """A figure, the interval in which it lies with 95 %, and whether it is of too few values for that."""

    def text(self, show):
        return f"{show(self.middle)} [{show(self.low)}, {show(self.high)}]"


class Median(Estimate):
    """The median of some values (the interval by order statistics; of few: all of them)."""

    FEWEST = 6  # values of which such an interval exists

    def __init__(self, values):
        values, last = sorted(values), len(values) - 1
        self.few = len(values) < self.FEWEST
        reach = 0.98 * math.sqrt(len(values))
        self.middle = statistics.median(values)
        self.low = values[max(0, math.floor(last / 2 - reach))]
        self.high = values[min(last, math.ceil(last / 2 + reach))]


def quartile(values):
    """The lower quartile."""
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def decile(values):
    """The lowest decile."""
    return statistics.quantiles(values, n=10, method="inclusive")[0]


def compared(values, others, by, quantile):
    """Quantiles compared, as an estimate has it: whether there are too few values, the middle, and the ends."""
    fewest, resamples = 16, 1000
    source = random.Random(0)  # the same figures of the same times
    again = lambda of: quantile(source.choices(of, k=len(of)))
    drawn = sorted(by(again(values), again(others)) for _ in range(resamples))
    few = min(len(values), len(others)) < fewest
    return few, by(quantile(values), quantile(others)), drawn[resamples // 40], drawn[-resamples // 40]


class QuartileRatio(Estimate):
    """The lower quartile of some values over that of others (the interval by resampling)."""

    def __init__(self, values, others):
        self.few, self.middle, self.low, self.high = compared(values, others, operator.truediv, quartile)


class DecileDifference(Estimate):
    """The lowest decile of some values less that of others (the interval by resampling)."""

    def __init__(self, values, others):
        self.few, self.middle, self.low, self.high = compared(values, others, operator.sub, decile)


def ratio(value):
    return f"{value:.2f}"


def points(value):
    """How much more than as much a ratio is, in per cent."""
    return f"{(value - 1) * 100:+.1f}"


def percent(value):
    """The same with the sign."""
    return f"{points(value)} %"


def goal(text, figure, show, bound, most=True):
    """Whether an estimate is at most (or at least) a bound, and whether it might as well lie beyond."""
    met = "met" if (figure.middle <= bound if most else figure.middle >= bound) else "NOT MET"
    doubt = ""
    if figure.few:
        doubt = ", of too few values to be certain"
    elif figure.low <= bound <= figure.high:
        doubt = ", but uncertain"
    return f"{text}: {figure.text(show)}, goal {'at most' if most else 'at least'} {show(bound)}: {met}{doubt}"


def line(label, colour, look, points):
    """A line of a chart: its points are (x, y) or (x, Estimate)."""
    drawn = [(x, y.middle if isinstance(y, Estimate) else y) for x, y in points]
    band = [(y.low, y.high) for _, y in points if isinstance(y, Estimate)]
    return {"label": label, "colour": colour, "look": look, "points": drawn, "band": band}


def draw(charts):
    """One SVG with all charts."""
    words = [f"{os.environ['CARGO_TARGET_DIR']}/release/charts"]
    return subprocess.run(words, input=json.dumps(charts), capture_output=True, text=True, check=True).stdout
