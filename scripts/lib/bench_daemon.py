"""`scripts/bench daemon`: what ringwatchd costs on the nodes of an idle job."""

import os
import re
import sys
import time

import bench_job as job
from bench_job import HOSTS, RANKS
from demo import processes

# text: parameters; the rest has its defaults
SETTINGS = {
    "100 ms": {"period": "100ms"},
    "10 ms": {"period": "10ms"},
    "1 ms": {"period": "1ms"},
    "10 ms, timeouts 50 ms": {"period": "10ms", "timeout": "50ms", "stop_timeout": "50ms"},
}
GOAL_AT, GOAL_PERCENT, GOAL_MIB = "10 ms", 0.5, 16


def read(path):
    with open(path) as f:
        return f.read()


class Sample:
    """What the kernel has counted for one thread so far, in seconds."""

    def __init__(self, folder):
        fields = read(f"{folder}/stat").rsplit(")", 1)[1].split()
        self.ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.run = int(read(f"{folder}/schedstat").split()[0]) / 1e9
        self.wakes = int(re.search(r"voluntary_ctxt_switches:\s*(\d+)", read(f"{folder}/status"))[1])


def memory(pid):
    """Resident now, the most there ever was, and the proportional share, in MiB."""
    status, rollup = read(f"/proc/{pid}/status"), read(f"/proc/{pid}/smaps_rollup")

    def value(name, text):
        return int(re.search(rf"^{name}:\s*(\d+) kB", text, re.M)[1]) / 1024
    return value("VmRSS", status), value("VmHWM", status), value("Pss", rollup)


def threads():
    """(folders of the ringwatchd processes, folders of their supervisors' threads in prterun and prted)"""
    daemons, supervisors = [], []
    for pid, (_, _, name) in processes().items():
        if name == "ringwatchd":
            daemons.append(f"/proc/{pid}")
        elif name in ("prterun", "prted", "mpirun"):
            for task in os.listdir(f"/proc/{pid}/task"):
                if read(f"/proc/{pid}/task/{task}/comm").strip() == "ringwatch":
                    supervisors.append(f"/proc/{pid}/task/{task}")
    return sorted(daemons), sorted(supervisors)


def shares(before, after, seconds):
    """Percent of a core of each thread, by clock ticks and by the scheduler, and its wake-ups a second."""
    ticks = [(after[k].ticks - before[k].ticks) / seconds * 100 for k in before]
    run = [(after[k].run - before[k].run) / seconds * 100 for k in before]
    wakes = [(after[k].wakes - before[k].wakes) / seconds for k in before]
    return ticks, run, wakes


def mean(values):
    return sum(values) / len(values)


def measure(settings, seconds, quiet):
    words = [w for name, value in settings.items() for w in ("--pmixmca", f"psensor_ringwatch_{name}", value)]
    this = job.Job("idle", words)
    try:
        if not this.at_work():
            sys.exit("bench: the job did not start:\n" + this.output())
        time.sleep(2)
        quiet.wait()
        daemons, supervisors = threads()
        if len(daemons) != len(HOSTS):
            sys.exit(f"bench: {len(daemons)} ringwatchd instead of {len(HOSTS)} are running:\n" + this.output())
        folders = daemons + supervisors
        busy = job.Busy()
        began = time.monotonic()
        before = {folder: Sample(folder) for folder in folders}
        while (left := seconds - (time.monotonic() - began)) > 0:
            job.note(f"  {left:.0f} s")
            time.sleep(min(left, 5))
        after = {folder: Sample(folder) for folder in folders}
        elapsed, busy = time.monotonic() - began, busy.share()
        if threads()[0] != daemons:
            sys.exit("bench: a ringwatchd was started again during the measurement")
        own = shares({k: before[k] for k in daemons}, after, elapsed)
        supervising = shares({k: before[k] for k in supervisors}, after, elapsed) if supervisors else ([0], [0], [0])
        sizes = [memory(folder.rsplit("/", 1)[1]) for folder in daemons]
        return busy, own, supervising, sizes
    finally:
        this.clean_up()


def main(options):
    job.prepare()
    job.install(True)
    quiet = job.Quiet(options.patience)
    print("\n".join(job.machine()))
    print(f"{RANKS} ranks that sleep on {len(HOSTS)} virtual hosts, {options.seconds:g} s each; four ringwatchd: mean "
          "and the highest of them", flush=True)
    rows = [("period", "", "% of a core", "max", "by ticks", "wake-ups/s", "its supervisor %", "RSS MiB", "peak", "Pss", "all cores %")]
    goals = []
    for text, settings in SETTINGS.items():
        job.note(f"  period {text}")
        busy, (ticks, run, wakes), (_, supervising, _), sizes = measure(settings, options.seconds, quiet)
        resident, peak, share = (max(column) for column in zip(*sizes))
        rows.append((text, "", f"{mean(run):.3f}", f"{max(run):.3f}", f"{mean(ticks):.3f}", f"{mean(wakes):.0f}",
                     f"{mean(supervising):.3f}", f"{resident:.1f}", f"{peak:.1f}", f"{share:.1f}", f"{busy * 100:.1f}"))
        job.say(f"  period {text}: {mean(run):.3f} % of a core, {resident:.1f} MiB")
        if text == GOAL_AT:
            goals = [
                f"processor: {max(run):.3f} % of a core, goal {GOAL_PERCENT} %: {'met' if max(run) <= GOAL_PERCENT else 'NOT MET'}",
                f"memory: {peak:.1f} MiB, goal {GOAL_MIB} MiB: {'met' if peak <= GOAL_MIB else 'NOT MET'}",
            ]
    print("\nProcessor share as the scheduler counts it; memory: the highest of the four; all cores: what was "
          "in use of\nthe whole machine meanwhile, so that a disturbed measurement can be told.\n")
    print("\n".join(job.table(rows)))
    print("\n" + quiet.summary())
    print(f"\nGoals at period {GOAL_AT} (highest of the four):")
    print("\n".join("  " + goal for goal in goals))
