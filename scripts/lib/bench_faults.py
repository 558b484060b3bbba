"""`scripts/bench faults`: time to the survivors' errors and to the repaired communicator, ringwatch and stock."""

import csv
import os
import random
import statistics
import sys
import time

import bench_job as job
from lab import HOSTS, RANKS

# What a user of stock can do for himself. Without the signal ignored, survivors that write to the dead rank's socket die.
TUNED_UNDER = ("env", "--ignore-signal=PIPE")
TUNED = ("--mca", "coll", "^han", "--mca", "async_mpi_finalize", "1", "--mca", "mpi_add_procs_cutoff", "4096")
RINGWATCH, STOCK, STOCK_TUNED = "ringwatch", "stock", "stock, tuned"

# Faults of two ranks with a core each: what a user's machine does, where ranks do not share cores.
# name: (text, victims, deed, systems)
PAIRS = {
    "kill-one-of-two": ("one host", [1], job.kill_ranks, (RINGWATCH, STOCK, STOCK_TUNED)),
    "kill-one-of-two-hosts": ("two hosts", [1], job.kill_ranks, (RINGWATCH, STOCK, STOCK_TUNED)),
}
PAIR_HOSTS = {"kill-one-of-two": HOSTS[:1], "kill-one-of-two-hosts": HOSTS[:2]}
# Both virtual hosts would bind their rank to the same core.
PAIR_OPTIONS = ("--bind-to", "none")
# Faults of eight ranks on four hosts.
FAULTS = PAIRS | {
    "kill-rank": ("killed rank", [5], job.kill_ranks, (RINGWATCH, STOCK, STOCK_TUNED)),
    "kill-two": ("two killed ranks", [2, 7], job.kill_ranks, (RINGWATCH, STOCK, STOCK_TUNED)),
    "stop-rank": ("stopped rank", [5], job.stop_rank, (RINGWATCH, STOCK)),
    "kill-prted": ("killed prted", [2, 3], job.kill_prted, (RINGWATCH, STOCK)),
    "stop-prted": ("stopped prted", [2, 3], job.stop_prted, (RINGWATCH, STOCK)),
    "kill-node": ("killed node", [6, 7], job.kill_node, (RINGWATCH, STOCK)),
    "cut-link": ("cut link", [6, 7], job.cut_link, (RINGWATCH, STOCK)),
}
FIGURES = ("first", "last", "shrink", "repair")  # each a field of Result
RATIOS = ("first", "last", "repair")
SLACK = 10  # milliseconds over the timeout that the goals allow


class Result:
    """One run, in milliseconds after the fault; what did not happen is None."""

    def __init__(self, fault, system, number):
        self.fault, self.system, self.number = fault, system, number
        self.busy = 0.0
        self.first = self.last = self.shrink = self.repair = None
        self.errors = self.repaired = self.wrong = 0  # of how many survivors
        self.recovered = self.ended = False
        self.status = None
        self.problem = None

    def read(self, records, victims, struck):
        """Judges by what the survivors wrote."""
        survivors = [record for rank, record in enumerate(records) if rank not in victims]
        errors = [record.error for record in survivors if record.error]
        self.errors = len(errors)
        self.repaired = sum(bool(record.done) and record.size == len(survivors) for record in survivors)
        self.wrong = sum(bool(record.wrong) for record in survivors)
        if errors:
            self.first = (min(errors) - struck) / 1e6
        if len(errors) == len(survivors):
            self.last = (max(errors) - struck) / 1e6
            if self.repaired == len(survivors):
                shrunk = max(record.shrunk for record in survivors)
                self.shrink, self.repair = (shrunk - max(errors)) / 1e6, (shrunk - struck) / 1e6
        self.recovered = self.repaired == len(survivors) and not self.wrong
        if self.first is not None and self.first < 0:
            self.problem = "an error came before the fault"

    COLUMNS = ("fault", "system", "number", "busy", "first", "last", "shrink", "repair", "errors", "repaired", "recovered",
               "ended", "status", "wrong", "problem")

    def row(self):
        return ["" if (value := getattr(self, name)) is None else value for name in self.COLUMNS]


def options_of(system, options):
    if system == RINGWATCH:
        settings = {"period": options.period, "timeout": options.timeout, "stop_timeout": options.timeout}
        return [word for name, value in settings.items() for word in ("--pmixmca", f"psensor_ringwatch_{name}", value)]
    return TUNED if system == STOCK_TUNED else ()


def run(fault, system, number, options, quiet):
    _, victims, prepare_deed, _ = FAULTS[fault]
    result = Result(fault, system, number)
    job.install(system == RINGWATCH)
    result.busy = quiet.wait()
    ranks, where, binding = (2, PAIR_HOSTS[fault], PAIR_OPTIONS) if fault in PAIRS else (RANKS, HOSTS, ())
    this = job.Job(",".join(map(str, victims)), (*options_of(system, options), *binding),
                   TUNED_UNDER if system == STOCK_TUNED else (), ranks, where)
    try:
        if not this.at_work():
            result.problem = "the job did not start"
            return result, this.output()
        deed = prepare_deed(this.records(), victims)
        # Any moment between two heartbeats is as likely as another.
        time.sleep(random.uniform(0.2, 0.4))
        struck = deed()
        limit = options.limit
        survivors = [rank for rank in range(ranks) if rank not in victims]
        this.wait(lambda records: all(records[rank].done for rank in survivors), limit)
        if all(this.records()[rank].done for rank in survivors):
            result.status = this.end(limit)
        else:
            result.status = this.mpirun.poll()
        result.read(this.records(), victims, struck)
        result.ended = result.recovered and result.status == 0
        return result, this.output()
    finally:
        this.clean_up()


# --- figures -----------------------------------------------------------------


def cell(value):
    return "-" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


class Summary:
    """The runs of one system under one fault."""

    def __init__(self, results):
        self.results = results
        self.count = len(results)
        self.median, self.maximum, self.known = {}, {}, {}
        for name in FIGURES:
            values = [value for result in results if (value := getattr(result, name)) is not None]
            self.known[name] = len(values)
            self.median[name] = statistics.median(values) if values else None
            self.maximum[name] = max(values, default=None)

    def cells(self, name):
        # A figure of only some of the runs says in how many it exists.
        partly = f" ({self.known[name]})" if 0 < self.known[name] < self.count else ""
        return [cell(self.median[name]), cell(self.maximum[name]) + partly]

    def counted(self, name):
        return f"{sum(getattr(result, name) for result in self.results)}/{self.count}"

    def ratio(self, other, name):
        if None in (self.median[name], other.median[name]) or not other.median[name]:
            return "-"
        return f"{self.median[name] / other.median[name]:.2f}"


def summaries(results, faults):
    return {(fault, system): Summary([r for r in results if (r.fault, r.system) == (fault, system)])
            for fault in faults for system in FAULTS[fault][3]}


def print_tables(found, faults):
    pairs = [fault for fault in faults if fault in PAIRS]
    if pairs:
        print("\nTwo ranks, a core each, both in MPI_Allreduce; one is killed:\n")
        print("\n".join(job.table(rows_of(found, pairs))))
    many = [fault for fault in faults if fault not in PAIRS]
    if many:
        print(f"\n{RANKS} ranks on {len(HOSTS)} virtual hosts, which share {os.cpu_count()} cores: the scheduler has its part in these.\n")
        print("\n".join(job.table(rows_of(found, many))))
    print("\nMilliseconds, median and maximum over the runs. First and last error, repaired: from the fault to the first or "
          "last\nsurvivor's error, and to the last survivor's repaired communicator; shrink: from the last error to that. "
          "- never; (n) in\nn runs only; recovered: every survivor, with right results; ended: recovered, and mpirun left by "
          "itself with status 0;\nratio: ringwatch's median over this row's. 'stock, tuned' has " + " ".join(TUNED[1:]).replace("--mca ", "") + f" and runs under {' '.join(TUNED_UNDER)}.\n")


def rows_of(found, faults):
    rows = [("fault", "system", "first error", "max", "last error", "max", "shrink", "max", "repaired", "max", "recovered",
             "ended", "ratio: first", "last", "repaired")]
    for fault in faults:
        text, _, _, systems = FAULTS[fault]
        for system in systems:
            summary = found[fault, system]
            figures = [part for name in FIGURES for part in summary.cells(name)]
            ratios = ["", "", ""] if system == RINGWATCH else \
                [found[fault, RINGWATCH].ratio(summary, name) for name in RATIOS]
            rows.append((text if system == RINGWATCH else "", system, *figures, summary.counted("recovered"),
                         summary.counted("ended"), *ratios))
    return rows


def print_notes(results, found, faults):
    for fault in faults:
        for system in FAULTS[fault][3]:
            summary = found[fault, system]
            if wrong := sum(bool(result.wrong) for result in summary.results):
                print(f"{FAULTS[fault][0]}, {system}: MPI_Allreduce returned success with a wrong result in {wrong} of "
                      f"{summary.count} runs")
            torn = [result for result in summary.results if result.status is not None and not result.recovered]
            if torn:
                states = sorted({result.status for result in torn})
                print(f"{FAULTS[fault][0]}, {system}: mpirun ended before the survivors had recovered in {len(torn)} of "
                      f"{summary.count} runs (exit status {', '.join(map(str, states))})")
    for result in results:
        if result.problem:
            print(f"{FAULTS[result.fault][0]}, {result.system}, run {result.number}: {result.problem}")


def milliseconds(text):
    for unit, factor in (("us", 1e-3), ("ms", 1), ("s", 1e3)):
        if text.endswith(unit) and text[:-len(unit)].replace(".", "", 1).isdigit():
            return float(text[:-len(unit)]) * factor
    sys.exit(f"bench: '{text}' is no time such as 50ms")


def print_goals(found, faults, options):
    print("\nGoals (median over the runs, at the last survivor's error):")
    limit = milliseconds(options.timeout) + SLACK
    for fault in faults:
        text, ours = FAULTS[fault][0], found[fault, RINGWATCH].median["last"]
        if fault in ("kill-two", "kill-prted", "stop-prted"):
            continue
        if fault == "kill-rank" or fault in PAIRS:
            theirs = [value for system in (STOCK, STOCK_TUNED)
                      if (value := found[fault, system].median["last"]) is not None]
            bound = min(theirs) / 4 if theirs else None
            goal = "a quarter of the best stock time" + (f", {bound:.2f} ms" if bound else ", but stock has none")
        else:
            bound, goal = limit, f"timeout + {SLACK} ms, {limit:.0f} ms"
        met = ours is not None and bound is not None and ours <= bound
        shown = "-" if ours is None else f"{ours:.2f} ms"
        if fault in PAIRS:
            text = f"one of two ranks killed, {text}"
        print(f"  {text}: {shown}, goal {goal}: {'met' if met else 'NOT MET'}")


# --- main --------------------------------------------------------------------


def main(options):
    milliseconds(options.timeout)
    faults = options.fault or list(FAULTS)
    job.prepare()
    quiet = job.Quiet(options.patience)
    print("\n".join(job.machine()))
    print("\n".join(job.autogroups()) or "the kernel's autogroups are off")
    print(f"ringwatch: period {options.period}, timeout and stop_timeout {options.timeout}; {options.runs} runs a fault and "
          f"system, limit {options.limit:g} s a run", flush=True)
    writer, out = None, None
    if options.csv_fd is not None:
        out = os.fdopen(options.csv_fd, "w", newline="")
        writer = csv.writer(out)
        writer.writerow(Result.COLUMNS)
    results = []
    for number in range(1, options.runs + 1):
        for fault in faults:
            for system in FAULTS[fault][3]:
                job.note(f"  run {number}/{options.runs}: {FAULTS[fault][0]}, {system}")
                result, output = run(fault, system, number, options, quiet)
                results.append(result)
                job.say(f"  run {number}/{options.runs}: {FAULTS[fault][0]:14}  {system:12}  first {cell(result.first):>6}  "
                        f"last {cell(result.last):>6}  shrink {cell(result.shrink):>6}  "
                        f"repaired {result.repaired}  status {result.status}" + (f"  {result.problem}" if result.problem else ""))
                if system == RINGWATCH and not (result.recovered and result.ended):
                    job.say("\n".join("    | " + line for line in output.splitlines()[-12:]))
                if writer:
                    writer.writerow(result.row())
                    out.flush()
    found = summaries(results, faults)
    print_tables(found, faults)
    print()
    print_notes(results, found, faults)
    print(quiet.summary())
    print_goals(found, faults, options)
