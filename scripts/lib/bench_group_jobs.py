"""The group of recommended processes in real jobs, for `scripts/bench group --part jobs`: what it costs a sort beside ULFM alone,
what returns are worth, and minutes under the work of others."""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import bench_job as job
from bench_job import WORK
from bench_times import Median, compile_program, goal, line, percent
from lab import HOSTS, processes

RANKS, LIMIT = 16, 300  # seconds that one job may take
SORT, MONITORED = "hyperquicksort", "monitored"
PUBLISHED_OVERHEAD, PUBLISHED_CORRELATION = "9 %", 0.80
ROUND = re.compile(r"^round (\d+) of \d+: (\d+) of", re.M)
# Of ten spans of time, in how many others work on each host.
BUSY = {host: spans for host, spans in zip(HOSTS, (0, 2, 4, 7))}
SPAN = 2.5  # seconds


def start(words, options=(), variables=()):
    """An mpirun of 16 ranks on four hosts, whose output is in a file."""
    where = ",".join(f"{host}:{RANKS // len(HOSTS)}" for host in HOSTS)
    command = ["rw-on", HOSTS[0], "mpirun", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "--with-ft", "ulfm",
               "--pmixmca", "psensor_ringwatch_stop_timeout", "off", *options, "-H", where, "-n", str(RANKS), "--bind-to", "none",
               "--mca", "mpi_yield_when_idle", "1", *(word for variable in variables for word in ("-x", variable)),
               *map(str, words)]
    with open(f"{WORK}/output", "wb") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def output():
    with open(f"{WORK}/output", errors="replace") as f:
        return f.read()


def wait(mpirun, condition, what):
    """Until the output is so, while the job runs; not longer than the limit."""
    deadline = time.monotonic() + LIMIT
    while not condition(output()):
        if mpirun.poll() is not None or time.monotonic() > deadline:
            job.clean_up(mpirun)
            sys.exit(f"bench: {what} has not come:\n{output()}")
        time.sleep(0.01)


def finish(mpirun, what):
    try:
        status = mpirun.wait(LIMIT)
    except subprocess.TimeoutExpired:
        status = f"that it had not after {LIMIT} s"
    job.clean_up(mpirun)
    if status != 0:
        sys.exit(f"bench: {what} ended with status {status}:\n{output()}")
    return output()


def ranks():
    """Process number of each rank."""
    found = {}
    for pid, (_, _, name) in processes().items():
        if name in (SORT, MONITORED):
            with open(f"/proc/{pid}/environ") as f:
                words = dict(word.split("=", 1) for word in f.read().split("\0") if "=" in word)
            found[int(words["PMIX_RANK"])] = pid
    return found


def sort(mode, numbers, returns="true", interval=1000, slot_ms=0, stopped=()):
    """Seconds that a sort takes; these ranks are stopped in its first round, until the others go on without them."""
    folder = f"{WORK}/slots"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    words = [f"{WORK}/{SORT}", mode, folder, numbers, 0, returns, interval]
    mpirun = start(words, variables=("TELL_TIME=yes", f"SLOT_MS={slot_ms}"))
    if stopped:
        wait(mpirun, ROUND.search, "the first round")
        pids = [pid for rank, pid in ranks().items() if rank in stopped]
        for pid in pids:
            job.kill(pid, signal.SIGSTOP)
        wait(mpirun, lambda text: any(int(size) <= RANKS - len(stopped) for _, size in ROUND.findall(text)), "a round without all of them")
        for pid in pids:
            job.kill(pid, signal.SIGCONT)
    text = finish(mpirun, f"{SORT} {mode}")
    took = re.search(rf"{SORT}: ([0-9.]+) s", text)
    if not took or "sorted, all there" not in text:
        sys.exit(f"bench: {SORT} {mode} has not sorted:\n{text}")
    return float(took[1])


def cost(options, quiet):
    """The same sort with the group and with ULFM alone, in turn: rows, goals, rows of figures."""
    numbers, runs = (150_000, 3) if options.quick else (400_000, 11)
    ratios, times, figures = [], {"group": [], "ulfm": []}, []
    for number in range(runs):
        job.note(f"  cost: {number + 1} of {runs}")
        quiet.wait()
        # In turn, each first as often as the other.
        for mode in (("group", "ulfm") if number % 2 == 0 else ("ulfm", "group")):
            times[mode].append(sort(mode, numbers, returns="false"))
            figures.append((f"sort, {mode}", number, "", "", times[mode][-1]))
        ratios.append(times["group"][-1] / times["ulfm"][-1])
    ratio, middle = Median(ratios), {mode: statistics.median(values) for mode, values in times.items()}
    rows = [("numbers on each of 16 processes", "", "ULFM alone, s", "group, s", "group more", "paper"),
            (f"{numbers:,}", "", f"{middle['ulfm']:.3f}", f"{middle['group']:.3f}", ratio.text(percent), PUBLISHED_OVERHEAD)]
    return rows, [("what the group costs a sort", ratio, percent, 1.03)], figures


def returns(options, quiet):
    """Half or all but one are stopped for a while, with returns and without: rows, goals, rows of figures."""
    slot_ms, runs = (150, 1) if options.quick else (500, 3)
    rows = [(f"stopped of 16; a list takes {slot_ms} ms in a round", "", "with returns, s", "without, s", "with / without")]
    goals, figures = [], []
    for count in (RANKS // 2, RANKS - 1):
        times = {"true": [], "false": []}
        for number in range(runs):
            for again in (("true", "false") if number % 2 == 0 else ("false", "true")):
                job.note(f"  returns: {count} stopped, {number + 1} of {runs}")
                quiet.wait()
                took = sort("group", 2000, again, 100, slot_ms, range(RANKS - count, RANKS))
                times[again].append(took)
                figures.append((f"{count} stopped, returns {again}", number, "", "", took))
        ratio = Median([one / other for one, other in zip(times["true"], times["false"])])
        middle = {again: f"{statistics.median(values):.2f}" for again, values in times.items()}
        rows.append((str(count), "", middle["true"], middle["false"], ratio.text("{:.2f}".format)))
        goals.append((f"{count} stopped, time with returns / without", ratio, "{:.2f}".format, 1))
    return rows, goals, figures


def schedule(pids, policy):
    """By this policy, all threads of these processes."""
    for pid in pids:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setscheduler(int(task), policy, os.sched_param(0))
        except OSError:
            pass


def burden(mpirun, seconds):
    """Lets others work in turn on the hosts. Returns for each host how many seconds that was."""
    pids = ranks()
    of_host = lambda host: [pid for rank, pid in pids.items() if rank // (RANKS // len(HOSTS)) == HOSTS.index(host)]
    shares, began, number = dict.fromkeys(HOSTS, 0.0), time.monotonic(), 0
    others = [subprocess.Popen(["bash", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]
    try:
        while time.monotonic() - began < seconds and mpirun.poll() is None:
            # 7 is prime to 10: the spans of a host lie apart.
            busy = [host for host in HOSTS if number * 7 % 10 < BUSY[host]]
            for host in HOSTS:
                schedule(of_host(host), os.SCHED_IDLE if host in busy else os.SCHED_OTHER)
                shares[host] += SPAN if host in busy else 0
            job.note(f"  load: {time.monotonic() - began:.0f} of {seconds} s")
            time.sleep(SPAN)
            number += 1
    finally:
        for other in others:
            other.kill()
            other.wait()
        schedule(pids.values(), os.SCHED_OTHER)
    return shares


def load(options):
    """Processes that test each other while others work: rows of tables, the correlation, rows of figures, and a chart."""
    seconds, interval, history = (50 if options.quick else 240), 250, f"{WORK}/history"
    mpirun = start([f"{WORK}/{MONITORED}", seconds + 15, interval], ("--pmixmca", "psensor_ringwatch_events", history))
    wait(mpirun, lambda text: "began " in text, "the beginning")
    shares = burden(mpirun, seconds)
    counters = dict(map(int, pair) for pair in re.findall(r"^(\d+) (\d+)$", finish(mpirun, MONITORED), re.M))
    with open(history) as f:
        records = [json.loads(text) for text in f]
    began = next(one["at_us"] for one in records if one["event"] == "grouped")
    sizes, outside, known, figures = [(0, RANKS)], set(), [0] * RANKS, []
    for one in sorted(records, key=lambda one: one["at_us"]):
        if one["event"] not in ("evicted", "returned"):
            continue
        leaves, at = one["event"] == "evicted", (one["at_us"] - began) / 1e6
        known[one["rank"]] += leaves
        (outside.add if leaves else outside.discard)(one["rank"])
        sizes += [(at, sizes[-1][1]), (at, RANKS - len(outside))]
        figures.append((one["event"], at, one["by"], one["rank"], one["counter"]))
    host = lambda rank: HOSTS[rank // (RANKS // len(HOSTS))]
    worked = [shares[host(rank)] for rank in range(RANKS)]
    evictions = [counters.get(rank, 0) for rank in range(RANKS)]
    correlation = statistics.correlation(worked, evictions) if len(set(evictions)) > 1 else 0
    rows = [("host", "", *HOSTS), ("seconds of others' work", "", *(f"{shares[one]:.0f}" for one in HOSTS)),
            ("evictions of its four processes", "",
             *(" ".join(str(evictions[rank]) for rank in range(RANKS) if host(rank) == one) for one in HOSTS))]
    told = [f"members at the worst moment: {min(size for _, size in sizes)} of {RANKS}; evictions: {sum(evictions)}, in the "
            f"history: {sum(known)}; correlation of others' work and evictions: {correlation:.2f} (paper: "
            f"{PUBLISHED_CORRELATION:.2f})"]
    chart = {"title": "Members while others work on three of four hosts", "subtitle": f"16 processes, a test every {interval} ms",
             "x": "seconds", "y": "members", "log": False, "is_linear": True, "series": [line("members", 0, "line", sizes)]}
    return rows, told, figures, chart


def main(options):
    """Prints tables; returns rows of figures and charts."""
    quiet = job.Quiet(options.patience)
    job.prepare()
    job.install(True)
    subprocess.run(["mpicc", "-std=gnu11", "-O2", "-o", f"{WORK}/{SORT}", f"/src/examples/{SORT}.c", "-lringwatch"], check=True)
    compile_program(MONITORED, "-lringwatch")
    print(f"\nReal jobs with {RANKS} ranks on 4 virtual hosts over TCP, bound to no core, which yield while they poll.")
    print("\n".join(job.machine() + job.autogroups()))
    rows, goals, figures = cost(options, quiet)
    print("\nHyperQuickSort without failures, a test every second, nobody comes back; medians, in brackets the interval with 95 %,"
          "\nof few runs all. Slots are files that are written through to the disk at the end of each round:")
    print("\n".join(job.table(rows)))
    more, found, values = returns(options, quiet)
    print("\nProcesses are stopped in the first of four rounds and go on when the others do so without them. What a list takes is"
          "\nwaiting, since the machine has not as many processors as processes:")
    print("\n".join(job.table(more)))
    goals, figures = goals + found, figures + values
    rows, told, values, chart = load(options)
    print("\nOthers work in turn on the hosts, whose processes then get only the time that nobody else wants (SCHED_IDLE):")
    print("\n".join([*job.table(rows), *told]))
    print("\n".join(["\nGoals:", *("  " + goal(*one) for one in goals), quiet.summary()]))
    return figures + values, [chart]
