"""`scripts/bench logging`: message logging and its event loggers, beside the figures of the thesis.

Camargo, PhD thesis, UFPR 2017, section 5.3.1: a program whose processes each save a determinant of 50 bytes and, when it is
stable, the next one; 1 to 128 processes.
"""

import csv
import os
import subprocess

import bench_job as job
import bench_logged
import bench_times
from bench_times import line

THESIS, MEASURED = "fitted to the thesis", "measured"
CENTRALISED, CLASSIC = "centralised", "classic Paxos"
DEDICATED = "parallel Paxos with three acceptor nodes"
OWN, ONE_SIDED = "parallel Paxos with own node and one other", "one-sided with own node and one other"
LOGGERS = (CENTRALISED, CLASSIC, DEDICATED, OWN, ONE_SIDED)
# What the thesis says with 128 processes: determinants per ms, and latency in ms. Of the centralised one it has the highest
# rate only, from 16 processes on; of the parallel one five times that. Latencies in brackets follow from the rates.
PUBLISHED = {CENTRALISED: ("83", "(1.54)"), CLASSIC: ("28", "4.6"), DEDICATED: ("about 415", "(0.31), printed as below 4")}
GOAL = 5
PARTS = ("loggers", "cost", "recovery")


def simulate(quick):
    """What the simulator finds, {(costs, logger, ranks, batch): row}, and its rows."""
    words = [f"{os.environ['CARGO_TARGET_DIR']}/release/loggers", *(["--quick"] if quick else [])]
    text = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = list(csv.DictReader(text.splitlines()))
    return {(row["costs"], row["logger"], int(row["ranks"]), int(row["batch"])): row for row in rows}, rows


def number(text):
    value = float(text)
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def rates(found, costs, sizes):
    """A line for each logger: rate and mean latency by number of ranks."""
    rows = [("", *(f"{size:,} ranks" if size > 1 else "1 rank" for size in sizes))]
    for logger in LOGGERS:
        cells = [found.get((costs, logger, size, 1)) for size in sizes]
        if all(cells):
            rows.append((logger, *(f"{number(row['per_ms'])} ({number(row['mean_us'])})" for row in cells)))
    return rows


def beside(found):
    """With the thesis's own figures."""
    rows = [("128 ranks", "simulated, per ms", "thesis, per ms", "simulated, ms", "thesis, ms")]
    for logger, (rate, latency) in PUBLISHED.items():
        row = found[THESIS, logger, 128, 1]
        rows.append((logger, number(row["per_ms"]), rate, f"{float(row['mean_us']) / 1000:.2f}", latency))
    return rows


def batches(found):
    rows = [("128 ranks, measured costs", "one at a time, per ms", "ten at a time, per ms")]
    for logger in LOGGERS:
        one, ten = (found[MEASURED, logger, 128, batch] for batch in (1, 10))
        rows.append((logger, number(one["per_ms"]), number(ten["per_ms"])))
    return rows


def goals(found):
    rate = lambda costs, logger: float(found[costs, logger, 128, 1]["per_ms"])
    for costs in (MEASURED, THESIS):
        for logger in (DEDICATED, OWN):
            ratio = rate(costs, logger) / rate(costs, CENTRALISED)
            met = "met" if ratio >= GOAL else "NOT MET"
            yield f"  {logger} over centralised, 128 ranks, costs {costs}: {ratio:.1f}, goal at least {GOAL}: {met}"
    used = float(found[MEASURED, ONE_SIDED, 128, 1]["store_processors"])
    yield f"  one-sided: processors in use at an acceptor's node: {used:g} (there is no code of theirs to run)"


def charts(found, sizes):
    def chart(costs, what, title, y, scale):
        series = []
        for colour, logger in enumerate(LOGGERS):
            points = [(size, float(found[costs, logger, size, 1][what]) * scale)
                      for size in sizes if (costs, logger, size, 1) in found]
            if points:
                series.append(line(logger, colour, "dots", points))
        if costs == THESIS:
            values = {"per_ms": [83, 28, 415], "mean_us": [1.54, 4.6, 0.31]}[what]
            series.append(line("thesis, 128 processes", 0, "published", [(128, value) for value in values]))
        return {"title": title, "subtitle": f"Simulated; times per message: {costs}", "x": "ranks", "y": y, "log": True,
                "series": series}
    return [chart(costs, *figure) for costs in (MEASURED, THESIS)
            for figure in (("per_ms", "Rate of event loggers", "determinants per ms", 1),
                           ("mean_us", "Latency of event loggers", "ms", 0.001))]


def loggers(options):
    """Part 1: rows of figures, and charts."""
    found, rows = simulate(options.quick)
    sizes = sorted({size for _, _, size, batch in found if batch == 1})
    shown = [size for size in sizes if size in (1, 4, 16, 64, 128, 1024)]
    print("Event loggers by themselves, each rank saves one determinant after the other. ALL FIGURES OF THESE TABLES ARE"
         " SIMULATED\nbut those of the thesis: the real machines of event-log, with times per message as"
         " simulator/src/loggers/costs.rs has them.\nOne failure is tolerated, except by the centralised logger."
         " Determinants per ms, in brackets the mean latency in us.")
    print("\nTimes per message measured over loopback (UDP); network and RDMA are assumed: 10 us each way, 1.3 us for a write.")
    print("\n".join(job.table(rates(found, MEASURED, shown))))
    print("\nTimes per message fitted to two figures of the thesis: 83 per ms of one server, 0.31 ms of the parallel logger.")
    print("\n".join(job.table(rates(found, THESIS, shown))))
    print("\nBeside the thesis. The other figures are predictions; its classic logger had a proposer and three learners more.")
    print("\n".join(job.table(beside(found))))
    print("\nWhat is gathered before a send goes in one message.")
    print("\n".join(job.table(batches(found))))
    print("\n".join(["\nGoals:", *goals(found)]))
    return [{"part": "loggers", **row} for row in rows], charts(found, sizes)


def jobs(options, parts):
    """Parts 2 and 3: rows of figures, and charts."""
    quiet, figures, drawn, told = job.Quiet(options.patience), [], [], []
    job.prepare()
    job.install(True)
    bench_logged.compile_examples()
    print(f"\nJobs with {bench_logged.RANKS} ranks on 4 virtual hosts over TCP, bound to no core, which yield while they poll.")
    print("\n".join(job.machine() + job.autogroups()))
    if "cost" in parts:
        rows, found, values = bench_logged.cost(options, quiet)
        print(f"\nWithout failures, with and without message logging (one spare) in turn: medians of {options.runs} runs,"
             " in brackets\nthe interval with 95 %, of few runs all.")
        print("\n".join(job.table(rows)))
        figures, told = figures + values, told + found
        runs = [(number, ratio) for number, (_, ratio, _, _) in enumerate(found, 1)]
        published = [(number, greatest) for number, (*_, greatest) in enumerate(bench_logged.PROGRAMS, 1)]
        drawn.append({"title": "Cost of message logging without failures",
                      "subtitle": ", ".join(name.split(",")[0] for name, *_ in found), "x": "program", "y": "with / without",
                      "log": False,
                      "series": [line("measured", 0, "dots", runs), line("thesis, at most", 1, "published", published)]})
    if "recovery" in parts:
        rows, found, values = bench_logged.recovery(options, quiet)
        print("\nA rank kills itself; a spare is there. The ranks exchange messages in pairs, with receives from any source.")
        print("\n".join(job.table(rows)))
        figures, told = figures + values, told + found
        rows, values = bench_logged.whole(options, quiet)
        print("")
        print("\n".join(job.table(rows)))
        figures += values
        kinds = ("new", "beside replay", "standstill")
        drawn.append({"title": "Recovery with a spare",
                      "subtitle": "To the first new message; the same less the replay; longest step of the others",
                      "x": "death", "y": "ms", "log": False, "series": [
                          line(what, colour, "dots", [(one["run"] + 1, one["value"]) for one in values_of(figures, what)])
                          for colour, what in enumerate(kinds)]})
    print("\n".join(["\nGoals:", *("  " + bench_times.goal(*goal) for goal in told), quiet.summary()]))
    return figures, drawn


def values_of(figures, what):
    return [one for one in figures if one["part"] == "recovery" and one["what"] == what]


def main(options):
    parts, figures, drawn = options.part or PARTS, [], []
    if "loggers" in parts:
        figures, drawn = loggers(options)
    if {"cost", "recovery"} & set(parts):
        more, charts_of = jobs(options, parts)
        figures, drawn = figures + more, drawn + charts_of
    if options.csv_fd is not None:
        with os.fdopen(options.csv_fd, "w", newline="") as out:
            writer = csv.DictWriter(out, list(dict.fromkeys(name for row in figures for name in row)))
            writer.writeheader()
            writer.writerows(figures)
    with os.fdopen(options.svg_fd, "w") as out:
        out.write(bench_times.draw(drawn))
