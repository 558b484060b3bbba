"""`scripts/bench daemon`: what ringwatchd costs on the nodes of an idle job."""

import os
import re
import subprocess
import sys
import time

import bench_job as job
from lab import HOSTS, RANKS, processes

# text: parameters; the rest has its defaults
SETTINGS = {
    "100 ms": {"period": "100ms"},
    "10 ms": {"period": "10ms"},
    "1 ms": {"period": "1ms"},
    "10 ms, timeouts 50 ms": {"period": "10ms", "timeout": "50ms", "stop_timeout": "50ms"},
}
GOAL_AT, GOAL_PERCENT, GOAL_MIB = "10 ms", 0.5, 16
PULSE, PULSE_PERIOD_US = f"{job.WORK}/pulse", 10_000


def read(path):
    with open(path) as f:
        return f.read()


class Sample:
    """What the kernel has counted for some threads so far, in seconds."""

    def __init__(self, folders):
        self.ticks = self.run = self.wakes = 0
        for folder in folders:
            fields = read(f"{folder}/stat").rsplit(")", 1)[1].split()
            self.ticks += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            self.run += int(read(f"{folder}/schedstat").split()[0]) / 1e9
            self.wakes += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", read(f"{folder}/status"), re.M)[1])


def memory(pid):
    """Resident now, the most there ever was, and the proportional share, in MiB."""
    status, rollup = read(f"/proc/{pid}/status"), read(f"/proc/{pid}/smaps_rollup")

    def value(name, text):
        return int(re.search(rf"^{name}:\s*(\d+) kB", text, re.M)[1]) / 1024
    return value("VmRSS", status), value("VmHWM", status), value("Pss", rollup)


def threads():
    """({pid: folders of its threads} of each ringwatchd, the same of their supervisors in prterun and prted)"""
    daemons, supervisors = {}, {}
    for pid, (_, _, name) in processes().items():
        tasks = [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
        if name == "ringwatchd":
            daemons[pid] = tasks
        elif supervising := [task for task in tasks if read(f"{task}/comm").strip() == "ringwatch"]:
            supervisors[pid] = supervising
    return daemons, supervisors


class Shares:
    """Percent of a core, by the scheduler and by clock ticks, and wake-ups a second, of each of some processes."""

    def __init__(self, before, after, seconds):
        pairs = [(before[pid], after[pid]) for pid in before]
        self.run = [(b.run - a.run) / seconds * 100 for a, b in pairs]
        self.ticks = [(b.ticks - a.ticks) / seconds * 100 for a, b in pairs]
        self.wakes = [(b.wakes - a.wakes) / seconds for a, b in pairs]


def sample(groups):
    return {pid: Sample(folders) for pid, folders in groups.items()}


def measure(settings, seconds, quiet):
    """Share of all cores in use, Shares of the daemons and of their supervisors, memory of each daemon."""
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
        busy, began = job.Busy(), time.monotonic()
        before = sample(daemons), sample(supervisors)
        while (left := seconds - (time.monotonic() - began)) > 0:
            job.note(f"  {left:.0f} s")
            time.sleep(min(left, 5))
        if threads()[0].keys() != daemons.keys():
            sys.exit("bench: a ringwatchd was started again during the measurement")
        after = sample(daemons), sample(supervisors)
        elapsed, busy = time.monotonic() - began, busy.share()
        # What counts is what others did meanwhile; the job itself does next to nothing.
        quiet.shares[-1] = busy
        own, supervising = (Shares(b, a, elapsed) for b, a in zip(before, after))
        return busy, own, supervising, [memory(pid) for pid in daemons]
    finally:
        this.clean_up()


def floor(seconds):
    """Percent of a core of each of four programs that only send a datagram around the hosts at the period of the goal."""
    addresses = {host: re.search(r"^(\S+)\s", subprocess.check_output(["getent", "hosts", host], text=True))[1] for host in HOSTS}
    running = []
    for host, successor in zip(HOSTS, HOSTS[1:] + HOSTS[:1]):
        words = ["rw-on", host, PULSE, addresses[successor], "9", str(PULSE_PERIOD_US), str(seconds)]
        running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    return [int(one.communicate()[0]) / 1e9 / seconds * 100 for one in running]


def mean(values):
    return sum(values) / len(values) if values else 0


def main(options):
    job.prepare()
    job.install(True)
    quiet = job.Quiet(options.patience)
    print("\n".join(job.machine()))
    print(f"{RANKS} ranks that sleep on {len(HOSTS)} virtual hosts, {options.seconds:g} s each; four ringwatchd: mean "
          "and the highest of them", flush=True)
    subprocess.run(["cc", "-O2", "-Wall", "-o", PULSE, "/src/scripts/lib/bench/pulse.c"], check=True)
    rows = [("period", "", "% of a core", "max", "by ticks", "wake-ups/s", "its supervisor %", "RSS MiB", "peak", "Pss", "all cores %")]
    goals = []
    for text, settings in SETTINGS.items():
        job.note(f"  period {text}")
        busy, own, supervising, sizes = measure(settings, options.seconds, quiet)
        resident, peak, share = (max(column) for column in zip(*sizes))
        rows.append((text, "", f"{mean(own.run):.3f}", f"{max(own.run):.3f}", f"{mean(own.ticks):.3f}",
                     f"{mean(own.wakes):.0f}", f"{mean(supervising.run):.3f}", f"{resident:.1f}", f"{peak:.1f}", f"{share:.1f}", f"{busy * 100:.1f}"))
        job.say(f"  period {text}: {mean(own.run):.3f} % of a core, {resident:.1f} MiB")
        if text == GOAL_AT:
            met = ["met" if held else "NOT MET" for held in (max(own.run) <= GOAL_PERCENT, peak <= GOAL_MIB)]
            job.note("  the least that a heartbeat can cost here")
            least = floor(options.seconds)
            rows.append((f"{text}, least", "", f"{mean(least):.3f}", f"{max(least):.3f}"))
            goals = [
                f"processor: {max(own.run):.3f} % of a core (mean {mean(own.run):.3f} %), goal {GOAL_PERCENT} %: {met[0]}",
                f"memory: {peak:.1f} MiB, goal {GOAL_MIB} MiB: {met[1]}",
            ]
    rows = [row + ("",) * (len(rows[0]) - len(row)) for row in rows]
    print("\nProcessor share as the scheduler counts it; least: of four programs that do nothing but send a datagram in each\n"
          "period, see scripts/lib/bench/pulse.c; memory: the highest of the four; all cores: what was "
          "in use of\nthe whole machine meanwhile, so that a disturbed measurement can be told.\n")
    print("\n".join(job.table(rows)))
    print("\n" + quiet.summary())
    print(f"\nGoals at period {GOAL_AT} (highest of the four):")
    print("\n".join("  " + goal for goal in goals))
