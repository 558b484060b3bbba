"""The demonstration, inside the container: examples/heat.c under faults.

Usage: demo.py [--stock] [--fault NAME]...   (scripts/demo calls it)
"""

import argparse
import datetime
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import demo_slow_node
from lab import HOSTS, RANKS, hosts, is_gone, kill, kill_host, note, parent, pids_on, processes

HEAT = ["--iterations", "400", "--pace", "5000"]
STRIKE_AT = 100  # iteration at which the fault is injected
PLAIN_LIMIT = 180  # seconds that the run without a fault may take
# A run with a fault may take so many times as long as that one, and at least so many seconds, by `stock`.
LIMIT = {False: (10, 40), True: (5, 20)}
ERROR_LIMIT = 10_000  # milliseconds to the last survivor's error
WORK = "/tmp/rw-demo"
LOGS = "/tmp/rw-log"


# --- what the ranks and the detectors wrote ----------------------------------


class Rank:
    """The events of one rank: what it is, and when (ns) it did what."""

    def __init__(self, path):
        self.pid = self.host = None
        self.events = []  # (ns, name, the rest of the line)
        with open(path, errors="replace") as f:
            for line in f:
                words = line.split(None, 3)
                if not line.endswith("\n") or len(words) < 3:
                    continue
                rest = words[3].strip() if len(words) > 3 else ""
                self.events.append((int(words[0]), words[2], rest))
                if words[2] == "start":
                    fields = dict(re.findall(r"(\w+)=(\S+)", rest))
                    self.pid, self.host = int(fields["pid"]), fields["host"]

    def first(self, name, since=0):
        return next(((t, rest) for t, n, rest in self.events if n == name and t >= since), None)

    def last(self, name, since=0):
        return next(((t, rest) for t, n, rest in reversed(self.events) if n == name and t >= since), None)

    def iteration(self):
        event = self.last("iterating")
        return int(event[1]) if event else -1


def read_ranks(folder):
    ranks = {}
    for name in os.listdir(folder):
        if name.startswith("rank."):
            rank = Rank(f"{folder}/{name}")
            if rank.pid:
                ranks[int(name[5:])] = rank
    return ranks


def log_time(line):
    """Nanoseconds from the start of a log line: RFC 3339, or epoch seconds."""
    word = line.split(None, 1)[0] if line.strip() else ""
    if re.fullmatch(r"\d{9,}(\.\d+)?", word):
        whole, _, part = word.partition(".")
        return int(whole) * 10**9 + int(part[:9].ljust(9, "0") or 0)
    # Cut to microseconds, which is all that fromisoformat knows.
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)?", word)
    if not match:
        return None
    zone = (match[3] or "Z").replace("Z", "+00:00")
    seconds = datetime.datetime.fromisoformat(match[1] + zone).timestamp()
    return int(seconds) * 10**9 + int((match[2] or ".0")[1:10].ljust(9, "0"))


class Declaration:
    """One failure that a detector announced."""

    def __init__(self, when, by, host, rank, reason):
        self.when, self.by, self.host, self.rank, self.reason = when, by, host, rank, reason

    def __str__(self):
        victim = f"rank {self.rank} on {self.host}" if self.rank is not None else self.host
        return f"{self.by} declares {victim} ({self.reason})"


def declarations(since, ignored):
    """Who announced what first, in order; not what is said on `ignored` hosts."""
    lines, hosts_of = [], {}
    for name in sorted(os.listdir(LOGS)):
        host = name.removesuffix(".log")
        with open(f"{LOGS}/{name}", errors="replace") as f:
            for line in f:
                fields = dict(re.findall(r'(\w+)="?([^"\s]+)"?', line))
                if re.search(r"\bstarted\b", line) and "node" in fields:
                    hosts_of[fields["node"]] = host  # the logs number the nodes
                if re.search(r"\bdeclared\b", line) and ("rank" in fields or "node" in fields):
                    lines.append((log_time(line), host, fields))
    found = {}
    for when, host, fields in lines:
        if when is None or when < since or host in ignored:
            continue
        by = hosts_of.get(fields.get("suspector")) or hosts_of.get(fields.get("source")) or host
        node = hosts_of.get(fields.get("node"), fields.get("node", "?"))
        rank = int(fields["rank"]) if fields.get("rank", "").isdigit() else None
        if (node, rank) not in found or when < found[node, rank].when:
            found[node, rank] = Declaration(when, by, node, rank, fields.get("reason", "no reason given"))
    return sorted(found.values(), key=lambda d: d.when)


REPLACE = "replace-rank"  # nobody repairs anything: a spare takes the place of the rank


# --- faults ------------------------------------------------------------------
# Each takes the ranks and returns: what is done, the victims, the deed itself.


def on(ranks, host):
    return sorted(r for r in ranks if ranks[r].host == host)


def kill_rank(ranks):
    return "SIGKILL to rank 5 on " + ranks[5].host, [5], lambda: kill(ranks[5].pid)


def kill_two(ranks):
    # Not each other's buddies: a block whose two copies are lost is lost.
    victims = [2, 7]
    where = " and ".join(f"rank {r} on {ranks[r].host}" for r in victims)
    return f"SIGKILL to {where} at once", victims, lambda: [kill(ranks[r].pid) for r in victims]


def stop_rank(ranks):
    return "SIGSTOP to rank 4 on " + ranks[4].host, [4], lambda: kill(ranks[4].pid, signal.SIGSTOP)


def kill_prted(ranks):
    victims = on(ranks, "h2")
    daemon = parent(ranks[victims[0]].pid)
    return f"SIGKILL to the daemon (prted) of h2, with ranks {listed(victims)}", victims, lambda: kill(daemon)


def kill_node(ranks):
    victims, pids = on(ranks, "h3"), pids_on("h3")
    return (f"SIGKILL to everything on h3, with ranks {listed(victims)}", victims,
            lambda: [kill(pid) for pid in pids] + [kill_host("h3")])


def replace_rank(ranks):
    what, victims, deed = kill_rank(ranks)
    return what + ", in a job with message logging and a spare", victims, deed


def cut_link(ranks):
    victims = on(ranks, "h4")
    return f"link of h4 cut, with ranks {listed(victims)}", victims, lambda: hosts("cut", "h4")


FAULTS = {
    "kill-rank": kill_rank,
    "kill-two": kill_two,
    "stop-rank": stop_rank,
    "kill-prted": kill_prted,
    "kill-node": kill_node,
    "cut-link": cut_link,
    REPLACE: replace_rank,
}


def listed(ranks):
    return " and ".join(map(str, ranks))


# --- one run -----------------------------------------------------------------


class Run:
    """One run of the solver, with a fault or without; everything measured."""

    def __init__(self, name, stock, limit=PLAIN_LIMIT):
        self.name, self.stock, self.limit = name, stock, limit
        self.replaces = name == REPLACE
        self.took = None  # seconds
        self.what, self.victims, self.struck = "nothing", [], None
        self.status = None  # mpirun's, None: it had to be killed
        self.ended = None  # ns
        self.gone = None  # ns: no victim's process exists any more
        self.hang = []
        self.folder = f"{WORK}/{name}"
        self.events = f"{self.folder}/events"

    def go(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(LOGS, ignore_errors=True)
        os.makedirs(self.events)
        os.makedirs(LOGS)
        began = time.monotonic()
        with open(f"{self.folder}/output", "wb") as output:
            job = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env=self.environment())
            while job.poll() is None and time.monotonic() - began < self.limit:
                if self.name in FAULTS and self.struck is None:
                    self.maybe_strike()
                self.watch_victims()
                note(f"  {self.name}: {time.monotonic() - began:.0f} s")
                time.sleep(0.01)
            if job.poll() is None:
                self.hang = self.dump()
            else:
                self.ended = time.time_ns()
                self.took = time.monotonic() - began
                self.status = job.returncode
        self.remaining = self.wait_for_the_rest()
        note("")
        # Before the clean-up, which would add errors of its own.
        self.ranks = read_ranks(self.events)
        with open(f"{self.folder}/output", errors="replace") as f:
            self.output = f.read().replace("\0", "")
        self.measure()
        self.clean_up(job)
        return self

    def command(self):
        spares = 1 if self.replaces else 0
        where = ",".join(f"{h}:{RANKS // len(HOSTS) + (spares if h == HOSTS[-1] else 0)}" for h in HOSTS)
        logging = ["--mca", "hook_ringwatch_recovery", "log", "--mca", "hook_ringwatch_spares", str(spares), "--bind-to", "none"]
        words = ["mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "--with-ft", "ulfm",
                 *(logging if spares else []), "-H", where, "-n", str(RANKS + spares), f"{WORK}/heat", *HEAT, "--events", self.events]
        return ["/usr/local/bin/rw-on", HOSTS[0], *words]

    def environment(self):
        if self.stock:
            return None
        return os.environ | {"PMIX_MCA_psensor_ringwatch_log": f"{LOGS}/%h.log",
                             "PMIX_MCA_psensor_ringwatch_log_level": "info"}

    def maybe_strike(self):
        ranks = read_ranks(self.events)
        if len(ranks) < RANKS or min(r.iteration() for r in ranks.values()) < STRIKE_AT:
            return
        self.what, self.victims, deed = FAULTS[self.name](ranks)
        self.targets = [ranks[r].pid for r in self.victims]
        self.reached = max(ranks[r].iteration() for r in self.victims)
        self.struck = time.time_ns()
        deed()

    def watch_victims(self):
        if self.struck and not self.gone and all(map(is_gone, self.targets)):
            self.gone = time.time_ns()

    def wait_for_the_rest(self):
        """What outlived mpirun, after it had some seconds to end by itself."""
        deadline = time.monotonic() + (3 if self.status is not None else 0)
        while (left := processes()) and time.monotonic() < deadline:
            self.watch_victims()
            time.sleep(0.02)
        self.watch_victims()
        return [f"{name} on {host} ({state})" for host, state, name in left.values()]

    def clean_up(self, job):
        kill(job.pid)
        for host in HOSTS:
            kill_host(host)
        job.wait()
        if self.name == "cut-link":
            hosts("heal", "h4")
        for folder in ("/dev/shm", "/tmp"):
            for entry in os.listdir(folder):
                if folder == "/dev/shm" or entry.startswith(("prte", "ompi")):
                    path = f"{folder}/{entry}"
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def dump(self):
        """The state of every process, for a run that did not end."""
        lines = []
        for pid, (host, state, name) in sorted(processes().items()):
            try:
                with open(f"/proc/{pid}/wchan") as f:
                    lines.append(f"{host} {pid} {name} state {state} {f.read()}")
            except OSError:
                continue
        return lines

    # --- verdict ---

    def lost_hosts(self):
        """Hosts of which no rank survives: what such a host says counts no more."""
        return {self.ranks[r].host for r in self.victims} - {k.host for k in self.survivors.values()}

    def false_alarms(self):
        return [d for d in self.declared
                if not (d.rank in self.victims if d.rank is not None else d.host in self.lost_hosts())]

    def milliseconds(self, times):
        return [(t - self.struck) / 1e6 for t in times]

    def measure(self):
        since = self.struck or 0
        lost = [] if self.replaces else self.victims
        self.survivors = {r: k for r, k in self.ranks.items() if r not in lost}
        alive = self.survivors.items()
        self.errors = sorted((e[0], r, e[1]) for r, k in alive if (e := k.first("error", since)))
        self.shrunk = sorted((e[0], r, e[1]) for r, k in alive if (e := k.last("shrunk", since)))
        self.restored = sorted((e[0], r, e[1]) for r, k in alive if (e := k.last("restored", since)) and not self.replaces)
        replaced = [self.ranks[r] for r in self.victims if self.replaces]
        self.again = sorted((e[0], r.host) for r in replaced if (e := r.last("start", since)))
        self.caught_up = sorted(
            next(t for t, n, rest in r.events if t >= since and n == "iterating" and int(rest) > self.reached)
            for r in replaced if r.iteration() > self.reached)
        self.finalized = [r for r, k in alive if k.last("finalized")]
        self.declared = declarations(since, self.lost_hosts()) if self.struck else []
        results = set(re.findall(r"heat: result ([0-9a-f]+) ", self.output))
        self.result = results.pop() if len(results) == 1 else None

    def count(self):
        """How many ranks have to come through."""
        return RANKS if self.replaces else RANKS - len(self.victims)

    def faults(self, reference):
        """What did not hold: a list of short texts, empty if all did."""
        count, wrong = self.count(), []
        lost = sorted(set(self.survivors) - set(self.finalized))
        if self.name in FAULTS and self.struck is None:
            wrong.append("the fault was never injected")
        if self.status is None:
            wrong.append(f"hangs: stopped after {self.limit:.0f} s")
        elif not self.finalized:
            wrong.append(f"the whole job is lost, mpirun's status is {self.status}")
        elif self.status != 0:
            wrong.append(f"mpirun's status is {self.status}")
        if self.finalized and lost:
            wrong.append(f"rank {listed(lost)} did not come through")
        if self.struck and self.replaces:
            if not self.caught_up:
                wrong.append("nobody has taken the place of the rank")
            if self.errors:
                wrong.append("a rank sees an error")
        elif self.struck:
            for events, text in ((self.errors, "see an error"), (self.shrunk, "repair the communicator")):
                if len(events) < count:
                    wrong.append(f"{len(events)} of {count} survivors {text}")
            if self.errors and self.milliseconds([self.errors[-1][0]])[0] > ERROR_LIMIT:
                wrong.append("the last error came too late")
        if self.struck and self.victims and not self.declared and not self.stock:
            wrong.append("no detector declared anything")
        wrong += [f"false alarm: {alarm}" for alarm in self.false_alarms()]
        if self.result is None:
            wrong.append("no result")
        elif reference and self.result != reference:
            wrong.append("WRONG RESULT")
        if self.status is not None and self.remaining:
            wrong.append("left behind: " + ", ".join(self.remaining))
        return wrong


# --- printing ----------------------------------------------------------------


def span(ms):
    return f"{ms / 1000:.2f} s" if ms >= 10_000 else f"{ms:.1f} ms"


def bar(marks, width=64):
    """Marks (milliseconds, letter) on a logarithmic axis from 0.1 ms to 100 s."""
    line = ["-"] * width
    for ms, letter in marks:
        place = (math.log10(min(max(ms, 0.1), 99_999)) + 1) / 6
        place = min(int(place * width), width - 1)
        while line[place] != "-" and place < width - 1:
            place += 1
        line[place] = letter
    return "x" + "".join(line)


def axis(width=64):
    line = " " * (width + 8)
    for i, label in enumerate(["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]):
        place = 1 + i * width // 6
        line = line[:place] + label + line[place + len(label):]
    return line.rstrip()


def timeline(run, reference):
    count = run.count()
    print(f"\n{run.name}")
    rows, marks = [(0, f"injected: {run.what}")], []
    if run.struck:
        for declaration in run.declared:
            rows.append((run.milliseconds([declaration.when])[0], str(declaration)))
        if run.declared:
            marks.append((rows[1][0], "d"))
        for events, first, last, letters in (
            (run.errors, "first survivor's error", "last survivor's error", "eE"),
            (run.shrunk, None, "communicator repaired at the last survivor", "R"),
            (run.restored, None, "data restored at the last survivor", None),
        ):
            if not events:
                continue
            ms = run.milliseconds([e[0] for e in events])
            if first:
                kind = re.search(r"class=(\S+)", events[0][2])
                rows.append((ms[0], f"{first} (rank {events[0][1]}, {kind[1] if kind else '?'})"))
                marks.append((ms[0], letters[0]))
            size = re.search(r"size=(\d+)", events[-1][2])
            rows.append((ms[-1], f"{last} (rank {events[-1][1]}{', ' + size[1] + ' ranks' if size else ''})"
                         + ("" if len(events) == count else f", only {len(events)} of {count}")))
            if letters:
                marks.append((ms[-1], letters[-1]))
        for when, host in run.again:
            ms = run.milliseconds([when])[0]
            rows.append((ms, f"a spare on {host} has the place of rank {listed(run.victims)}, and runs from main"))
            marks.append((ms, "s"))
        for ms in run.milliseconds(run.caught_up):
            rows.append((ms, f"it has repeated all iterations up to {run.reached}, and goes on"))
            marks.append((ms, "R"))
        if run.gone and run.name in ("stop-rank", "kill-prted", "cut-link"):
            # The fault itself ended nobody: this is the fence at work.
            rows.append((run.milliseconds([run.gone])[0], f"no process of rank {listed(run.victims)} is left"))
        if run.ended:
            ms = run.milliseconds([run.ended])[0]
            rows.append((ms, f"mpirun exits with status {run.status}"))
            marks.append((ms, "X"))
    for ms, text in sorted(rows, key=lambda r: r[0]):
        print(f"  {'+' + span(ms):>12}  {text}")
    if run.struck:
        print(f"  {bar(marks)}\n  {axis()}")
    if run.result is None:
        answer = "none"
    else:
        answer = f"{run.result}, " + ("equals the fault-free one" if run.result == reference else "DIFFERS from the fault-free one")
    print(f"  result {answer}; finalized: {len(run.finalized)} of {count} {'ranks' if run.replaces else 'survivors'}; "
          f"mpirun: {'had to be killed' if run.status is None else f'status {run.status}'}")
    wrong = run.faults(reference)
    print("  => " + ("; ".join(wrong) if wrong else "nobody saw an error: all held" if run.replaces else "the survivors went on: all held"))
    for line in re.findall(r"^.*(heat: (?!result).*)", run.output, re.M):
        print("     | " + line)
    if wrong and not run.stock:
        for line in run.output.splitlines()[-15:]:
            print("     | " + line)
        for line in run.hang:
            print("     ps " + line)
        for rank, record in sorted(run.ranks.items()):
            print(f"     rank {rank} on {record.host}: last event " + " ".join(record.events[-1][1:]))
    sys.stdout.flush()


def summary(runs, reference):
    def last(run, events, place):
        return f"{run.milliseconds([events[place][0]])[0]:.1f}" if events and run.struck else "-"

    head = ("fault", "first error", "last error", "repaired", "result", "finalized", "mpirun", "verdict")
    table = [head]
    for run in runs:
        count = run.count()
        wrong = run.faults(reference)
        whole = lambda events: "" if run.replaces or len(events) == count else "*"
        repaired = last(run, [(t, 0) for t in run.caught_up] if run.replaces else run.shrunk, -1)
        table.append((
            run.name,
            last(run, run.errors, 0),
            last(run, run.errors, -1) + whole(run.errors),
            repaired + whole(run.shrunk),
            "none" if run.result is None else "same" if run.result == reference else "WRONG",
            f"{len(run.finalized)}/{count}",
            "killed" if run.status is None else str(run.status),
            wrong[0] if wrong else "ok",
        ))
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    print(f"\nMilliseconds after the fault, {'stock Open MPI' if runs[0].stock else 'ringwatch'} "
          "(* not all survivors)")
    for row in table:
        print("  " + "  ".join(cell.ljust(w) if i in (0, 7) else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))).rstrip())


# --- main --------------------------------------------------------------------


def prepare(stock):
    os.makedirs(WORK, exist_ok=True)
    # The container's system may be one that has ringwatch.
    subprocess.run(["/src/scripts/uninstall" if stock else "/src/scripts/install"], check=True, stdout=sys.stderr)
    subprocess.run(["mpicc", "-std=gnu11", "-O2", "-o", f"{WORK}/heat", "/src/examples/heat.c", "-lm"], check=True)
    hosts("up", str(len(HOSTS)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--fault", action="append", choices=[*FAULTS, demo_slow_node.NAME])
    options = parser.parse_args()
    try:
        prepare(options.stock)
    except subprocess.CalledProcessError as failed:
        # It said why; 2 is a missing prerequisite.
        sys.exit(2 if failed.returncode == 2 else f"demo: this failed: {' '.join(failed.cmd)}")

    if options.fault == [demo_slow_node.NAME] and not options.stock:
        sys.exit(demo_slow_node.run())

    print(f"{'Stock Open MPI, without ringwatch' if options.stock else 'ringwatch'}: "
          f"{RANKS} ranks on {len(HOSTS)} virtual hosts")
    plain = Run("no-fault", options.stock).go()
    wrong = plain.faults(None)
    if wrong:
        print("\n".join("  | " + line for line in plain.output.splitlines()[-15:]))
        sys.exit("demo: already the run without a fault failed: " + "; ".join(wrong))
    reference = plain.result
    print(f"without a fault: result {reference}, all {RANKS} ranks finalized, mpirun: status {plain.status}")

    times, least = LIMIT[options.stock]
    limit = max(times * plain.took, least)
    runs = []
    named = [name for name in options.fault or FAULTS if name != demo_slow_node.NAME]
    for name in named:
        runs.append(Run(name, options.stock, limit).go())
        timeline(runs[-1], reference)
    # A slow process is no failure for stock Open MPI: it waits for it.
    slow = [] if options.stock or options.fault and demo_slow_node.NAME not in options.fault else [demo_slow_node.run()]
    print("\nx injected  d declared  e first error  E last error  s spare  R repaired  X mpirun's exit")
    summary(runs, reference)
    held = not any(run.faults(reference) for run in runs) and not any(slow)
    sys.exit(0 if held or options.stock else 1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
