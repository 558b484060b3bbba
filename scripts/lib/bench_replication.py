"""`scripts/bench replication`: replicated ranks, simulated beside the figures of the thesis, and in jobs.

Ford, Lazy Fault Detection for Redundant MPI, Cal Poly 2016, tables 5.1 (environment 1, 64 processes) and 5.2 (environment 2, 16
processes), and figure 5.5.
"""

import csv
import os
import subprocess

import bench_job as job
import bench_replicated
import bench_times
from bench_times import line

PARTS = ("simulated", "jobs")
LINK, THESIS = "link of 500 us", "as environment 2 of the thesis"
METHODS = ("alltoall", "async", "msgplushash", "asynchash")
KINDS = [(method, replicas) for method in METHODS for replicas in (2, 3)]
# Seconds with Open MPI alone, then in the order of KINDS.
PUBLISHED_1 = {
    "BT": (73.87, 213.82, 359.82, 82.49, 100.39, 94.36, 92.53, 72.14, 79.85),
    "CG": (172.92, 614.23, 1078.34, 213.96, 344.13, 247.40, 294.24, 174.54, 169.72),
    "EP": (91.01, 91.17, 90.89, 91.32, 90.10, 91.56, 90.84, 91.28, 91.36),
    "IS": (185.63, 366.21, 595.17, 314.80, 491.52, 189.01, 268.07, 171.37, 177.29),
    "LU": (26.90, 114.72, 227.96, 43.75, 61.68, 67.61, 87.09, 49.82, 54.92),
    "SP": (148.76, 404.16, 688.51, 153.46, 182.74, 176.59, 174.46, 138.23, 146.89),
}
PUBLISHED_2 = {
    "BT": (101.53, 200.01, 321.81, 132.35, 163.10, 118.72, 120.64, 113.11, 113.53),
    "CG": (163.95, 429.28, 779.35, 299.17, 406.45, 199.04, 219.87, 191.56, 191.86),
    "EP": (41.22, 41.45, 41.24, 41.06, 41.58, 41.06, 41.20, 41.07, 41.19),
    "FT": (53.47, 100.08, 155.93, 97.66, 145.12, 56.01, 55.78, 55.93, 56.19),
    "IS": (24.50, 53.80, 82.62, 52.34, 78.46, 28.81, 28.79, 29.11, 28.59),
    "LU": (99.51, 153.07, 225.65, 211.55, 240.66, 133.15, 139.17, 216.30, 219.76),
    "SP": (84.22, 203.52, 323.69, 75.24, 101.08, 116.84, 124.69, 86.09, 87.60),
}
NAMES = [f"{method} x{replicas}" for method, replicas in KINDS]


def simulate(quick):
    """What the simulator finds, {(costs, program, method, replicas): row}, and its rows."""
    words = [f"{os.environ['CARGO_TARGET_DIR']}/release/replication", *(["--quick"] if quick else [])]
    text = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = list(csv.DictReader(text.splitlines()))
    return {(row["costs"], row["program"], row["method"], int(row["replicas"])): row for row in rows}, rows


def ratio(found, costs, program, kind):
    return float(found[costs, program, *kind]["seconds"]) / float(found[costs, program, "none", 1]["seconds"])


def programs(found):
    return sorted({program for _, program, _, _ in found})


def ratios(found):
    """Time over that without replicas, on the link."""
    rows = [("", "class", "none, s", *NAMES)]
    for program in programs(found):
        none = found[LINK, program, "none", 1]
        rows.append((program, none["class"], f"{float(none['seconds']):.3f}",
                     *(f"{ratio(found, LINK, program, kind):.3f}" for kind in KINDS)))
    return rows


def beside(found):
    """Time over that without replicas: simulated, table 5.2, table 5.1."""
    rows = [("", "from", *NAMES)]
    for program in programs(found):
        rows.append((program, "simulated", *(f"{ratio(found, THESIS, program, kind):.2f}" for kind in KINDS)))
        for name, published in (("table 5.2, 16 processes", PUBLISHED_2), ("table 5.1, 64 processes", PUBLISHED_1)):
            if program in published:
                alone, *times = published[program]
                rows.append(("", name, *(f"{time / alone:.2f}" for time in times)))
    return rows


def costs(found):
    """What else it takes, on the link."""
    rows = [("", "method", "messages", "of the protocol", "MB", "processor ms", "open", "kept MB")]
    for program in programs(found):
        for kind in [("none", 1), *KINDS]:
            row = found[LINK, program, *kind]
            name = "none" if kind[0] == "none" else f"{kind[0]} x{kind[1]}"
            kept = f"{int(row['kept']) / 1e6:.2f}" if kind[0] != "none" else "-"
            rows.append((program, name, f"{int(row['messages']):,}", f"{int(row['control']):,}",
                         f"{int(row['bytes']) / 1e6:,.1f}", f"{float(row['processor']) * 1000:.2f}", row["open"] if kind[0] != "none" else "-", kept))
    return rows


def goals(found):
    for replicas, bound in ((2, 0.74), (3, 0.79)):
        gain = lambda program: 1 - (ratio(found, LINK, program, ("async", replicas))
                                    / ratio(found, LINK, program, ("alltoall", replicas)))
        best, program = max((gain(program), program) for program in programs(found))
        met = "met" if best >= bound else "NOT MET"
        yield f"  async better than alltoall, x{replicas}, at best ({program}): {best:.1%}, goal at least {bound:.0%}: {met}"
    for program in programs(found):
        bound = 1.01 if program == "EP" else 1.05
        for replicas in (2, 3):
            value = ratio(found, LINK, program, ("asynchash", replicas))
            met = "met" if value <= bound else "NOT MET"
            yield f"  {program} with asynchash x{replicas} over no replicas: {value:.3f}, goal at most {bound}: {met}"


def charts(found):
    """Figure 5.5: requests open over time, two replicas."""
    drawn = []
    for program in programs(found):
        series = []
        for colour, method in enumerate(METHODS):
            pairs = [point.split(":") for point in found[LINK, program, method, 2]["line"].split()]
            points = [(1000 * float(time), float(value)) for time, value in pairs]
            if points:
                series.append(line(method, colour, "line", points))
        drawn.append({"title": f"{program}: messages open", "subtitle": f"Simulated, two replicas, {LINK}; as figure 5.5",
                      "x": "ms", "y": "messages a process", "log": False, "series": series})
    return drawn


def simulated(options):
    """Prints the tables. Returns rows of figures, and charts."""
    found, rows = simulate(options.quick)
    print("Replicated ranks, 16 of them, x2 and x3, communication of the NAS Parallel Benchmarks. ALL FIGURES ARE SIMULATED but"
          " those of\nthe thesis: the real machines of the crate replication, with times per message as"
          " simulator/src/replication/costs.rs has\nthem, and patterns of some iterations as patterns.rs beside it has them. Each"
          " process has a processor. Time is until all\nis verified.")
    print("\nTime over that without replicas, link of 500 us, 10 Gbit/s.")
    print("\n".join(job.table(ratios(found))))
    print("\nWhat else it takes there: of all processes; processor time is the mean of a process; open messages and data kept are"
          " the\nmost of any.")
    print("\n".join(job.table(costs(found))))
    print("\nBeside the thesis: time over that without replicas; simulated as its second environment, its tables as it has"
          " them.")
    print("\n".join(job.table(beside(found))))
    print("\n".join(["\nGoals, link of 500 us:", *goals(found)]))
    return [{"part": "simulated", **row} for row in rows], charts(found)


def main(options):
    rows, drawn = [], []
    for part in PARTS:
        if part in (options.part or PARTS):
            found, figures = {"simulated": simulated, "jobs": bench_replicated.main}[part](options)
            rows, drawn = rows + found, drawn + figures
    if options.csv_fd is not None:
        with os.fdopen(options.csv_fd, "w", newline="") as out:
            writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
    with os.fdopen(options.svg_fd, "w") as out:
        out.write(bench_times.draw(drawn))
