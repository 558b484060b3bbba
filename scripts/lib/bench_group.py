"""`scripts/bench group`: the group of recommended processes, beside the figures of the paper.

Camargo and Duarte, Journal of the Brazilian Computer Society 24:5, 2018; annex A is that of Camargo's PhD thesis, UFPR 2017.
"""

import csv
import json
import os
import statistics
import subprocess

import bench_group_jobs
import bench_job as job
import bench_times
from bench_times import line

# What the papers say: members at the worst moments, evictions of all processes, and messages of annex A.
PUBLISHED_SMALLEST, PUBLISHED_EVICTIONS = 3, 72
ANNEX = {(30, "consensus"): 960, (62, "consensus"): 3968, (126, "consensus"): 16218, (30, "UB"): 870, (62, "UB"): 3782,
         (126, "UB"): 15750, (30, "BB"): 1711, (62, "BB"): 7503, (126, "BB"): 31375}
NAMES = {"all": "all test all", "vcube": "VCube"}


def simulate(quick):
    words = [f"{os.environ['CARGO_TARGET_DIR']}/release/groups", *(["--quick"] if quick else [])]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)


def hosts(found):
    """Table 3 of the paper beside ours."""
    jobs, paper, ours = found["paper"]["jobs"], found["paper"]["counters"], found["monitoring"]["counters"]
    doubts = found["with_doubts"]["counters"]
    rows = [("host", *map(str, range(len(jobs)))), ("jobs of others", *map(str, jobs)), ("counter, paper", *map(str, paper)),
            ("counter, simulated", *map(str, ours)), ("the same, testers doubt", *map(str, doubts))]
    return rows


def spread(values, show):
    return f"{show(statistics.median(values))} ({show(min(values))} to {show(max(values))})"


def seeds(found):
    of = lambda what: [row[what] for row in found["seeds"]]
    doubts, paper = found["with_doubts"], found["paper"]
    whole, two = "{:.0f}".format, "{:.2f}".format
    return [("", "paper", f"simulated, {len(found['seeds'])} seeds", "testers doubt, seed 1"),
            ("evictions", str(PUBLISHED_EVICTIONS), spread(of("evictions"), whole), whole(doubts["evictions"])),
            ("correlation of jobs and counters", two(paper["correlation"]), spread(of("correlation"), two),
             two(doubts["correlation"])),
            ("smallest group", str(PUBLISHED_SMALLEST), spread(of("smallest"), whole), whole(doubts["smallest"]))]


def pairs(found):
    rows = [("tester and target", "tests failed", "returns asked for", "other votes for a return")]
    for pair in found["monitoring"]["pairs"]:
        counts = (str(pair[what]) for what in ("failures", "requests", "votes"))
        rows.append((f"{pair['tester']} tests {pair['target']}", *counts))
    return rows


def intervals(row):
    return f"{row['intervals']:.1f}" if row else "-"


def costs(found):
    rows = [("processes", "", "tests", "at most", "messages", "latency: one dies", "half", "all but one", "bound",
             "all but one, testers doubt")]
    for row in found["costs"]:
        counted = lambda what: f"{row['quiet'][what]:,}" if row["quiet"] else "-"
        latencies = (intervals(row[losses]) for losses in ("one", "half", "all_but_one"))
        rows.append((f"{row['processes']:,}", NAMES[row["assignment"]], counted("tests"), f"{row['most_tests']:,}",
                     counted("messages"), *latencies, str(row["bound"]), intervals(row["all_but_one_with_doubts"])))
    return rows


def annex(found):
    rows = [("members", "way", "counted as in the annex", "annex", "by formula", "all messages")]
    for row in found["broadcasts"]:
        m, way, counted = row["members"], row["way"], row["counted"]
        as_annex = {"consensus": counted["broadcast"] + m + counted["phases"], "UB": counted["numbered"],
                    "BB": counted["broadcast"] + counted["numbered"]}[way]
        formula = {"consensus": m * m + 2 * m, "UB": m * (m - 1), "BB": m * (m - 1) + (m - 1) ** 2}[way]
        every = sum(counted[kind] for kind in ("broadcast", "to_sequencer", "numbered", "phases", "answers"))
        rows.append((str(m), way, f"{as_annex:,}", f"{ANNEX[m, way]:,}", f"{formula:,}", f"{every:,}"))
    return rows


def sorts(found):
    rows = [("of 16 processes", "with returns", "without")]
    second = lambda value: f"{value:.0f} s" if value is not None else "NOT SORTED"
    for row in found["sorts"]:
        rows.append((f"{row['lost']} {row['fate']}" if row["lost"] else "none lost", second(row["with"]), second(row["without"])))
    return [row for place, row in enumerate(rows) if row not in rows[:place]]


def goals(found):
    sort = found["sorts"]
    faster = all(row["with"] and row["without"] and row["with"] < row["without"] for row in sort
                 if row["lost"] > 1 and row["fate"] != "killed")
    found_it = all(row["intervals"] <= one["bound"] for one in found["costs"]
                   for row in (one["one"], one["half"], one["all_but_one"]) if row)
    counts = all(one["quiet"]["tests"] <= one["most_tests"] for one in found["costs"] if one["quiet"])
    same = all(row["counted"]["is_same"] for row in found["broadcasts"])
    word = lambda is_met: "met" if is_met else "NOT MET"
    yield f"  all know all deaths within the bound: {word(found_it)}"
    yield f"  at most N (N - 1) or N log2 N tests in an interval: {word(counts)}"
    yield f"  everything is sorted: {word(all(row['with'] and row['without'] for row in sort))}"
    yield f"  half or all but one stopped for a while: less time with returns than without: {word(faster)}"
    yield f"  all members deliver all messages in one order: {word(same)}"


def samples(pair, first, last):
    """A process as its tester sees it. The threshold of the first test, 8 s, is left out."""
    shown = [one for one in pair["samples"] if first <= one["interval"] < last]
    return [line("reply", 0, "line", [(one["interval"], one["reply"]) for one in shown if one["reply"] is not None]),
            line("threshold", 1, "line", [(one["interval"], one["threshold"]) for one in shown if one["threshold"] < 8000]),
            line("fails", 3, "published",
                 [(one["interval"], one["reply"] or one["threshold"]) for one in shown if not one["passed"]])]


def thinned(series, most=750):
    """Of a long line the lowest and the highest of so many points each, so that the picture stays small and no peak is lost."""
    for one in series:
        step = len(one["points"]) // most
        if one["look"] != "published" and step > 2:
            parts = [one["points"][start:start + step] for start in range(0, len(one["points"]), step)]
            height = lambda point: point[1]
            one["points"] = [point for part in parts for point in sorted({min(part, key=height), max(part, key=height)})]
    return [one for one in series if one["points"]]


def zoom(pair):
    """Where the target fails for the first time after the start, and 500 intervals around it."""
    failed = [one["interval"] for one in pair["samples"] if not one["passed"] and one["interval"] > 250]
    first = max(1, int(failed[0]) - 250) if failed else 1
    return first, first + 500


def charts(found):
    close, (kind, strict, steady) = found["close"]["pairs"][0], found["monitoring"]["pairs"]
    first, last = zoom(strict)
    whole = (1, found["monitoring"]["intervals"] + 1)
    seen = lambda pair: f"process {pair['tester']} tests process {pair['target']}"
    text = "Simulated, seed 1; intervals of 1 s; the load is fitted to the paper's text"

    def trace(title, y, series):
        return {"title": title, "subtitle": text, "x": "interval", "y": y, "log": False, "is_linear": True,
                "series": thinned(series)}

    shown = (("7", close, (1, 151)), ("8", kind, whole), ("9", strict, whole), ("10", steady, whole),
             ("11", strict, (first, last)))
    pictures = [trace(f"Figure {number}: {seen(pair)}", "ms", samples(pair, *ends)) for number, pair, ends in shown]
    streaks = [(one["interval"], one["streak"]) for one in strict["samples"] if first <= one["interval"] < last]
    pictures.append(trace(f"Figure 12: process {strict['target']} comes back, as process {strict['tester']} counts", "tests",
                          [line("tests passed in a row", 2, "line", streaks)]))
    sizes = steps(found["monitoring"]["sizes"], len(found["paper"]["jobs"]))
    pictures.append(trace("Figure 13: members", "members", [line("members", 0, "line", sizes)]))
    pictures.append(by_processes("Messages in an interval in which nothing happens", "messages", found, "messages",
                                 lambda row: row["quiet"] and row["quiet"]["messages"],
                                 "at most", lambda row: 2 * row["most_tests"]))
    pictures.append(by_processes("From the deaths until all know all", "intervals", found, "all but one die at once",
                                 lambda row: row["all_but_one"] and row["all_but_one"]["intervals"],
                                 "bound", lambda row: row["bound"]))
    return pictures


def steps(sizes, before):
    """The number of members over time as a line."""
    points = [(0, before)]
    for at, size in sizes:
        points += [(at, points[-1][1]), (at, size)]
    return points


def by_processes(title, y, found, what, value, limit, bound):
    """Both assignments by number of processes, beside their bounds."""
    series = []
    for colour, (name, label) in enumerate(NAMES.items()):
        rows = [row for row in found["costs"] if row["assignment"] == name]
        series += [line(f"{label}: {what}", colour, "dots", [(row["processes"], value(row)) for row in rows if value(row)]),
                   line(f"{label}: {limit}", colour, "dashed", [(row["processes"], bound(row)) for row in rows])]
    return {"title": title, "subtitle": "Simulated", "x": "processes", "y": y, "log": True, "series": series}


def write_csv(fd, rows):
    with os.fdopen(fd, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("what", "interval, run or second", "process or tester", "target", "value", "threshold", "passed", "streak"))
        writer.writerows(rows)


def figures(found):
    """Rows of the file."""
    for at, rank, counter in found["monitoring"]["changes"]:
        yield "counter", at, rank, "", counter, "", "", ""
    for pair in found["monitoring"]["pairs"]:
        for one in pair["samples"]:
            yield ("test", one["interval"], pair["tester"], pair["target"], one["reply"], one["threshold"], int(one["passed"]),
                   one["streak"])


def simulated(options):
    """Prints tables; returns rows of figures and charts."""
    found = simulate(options.quick)
    print("The group of recommended processes. ALL FIGURES ARE SIMULATED but those of the papers: the machines of"
          "\nrecommended-group on hosts with the jobs of the paper's table 3. How jobs slow a host down is fitted to the paper's"
          "\ntext (simulator/src/recommended/load.rs): the number of evictions is no prediction.")
    print("\n18 processes, 30,000 intervals of 1 s, thresholds of 2.5 times TCP's (table 3 of the paper); seed 1:")
    print("\n".join(job.table(hosts(found))))
    print("\nThe same with other seeds, median and range; and with testers that doubt themselves, which the paper's do not:")
    print("\n".join(job.table(seeds(found))))
    print("\nThe process that left most often, as the kindest and the strictest tester saw it, and the steadiest one (the paper:"
          "\nprocess 11 failed process 2 in no test, process 6 in 7, asked for 9 returns and voted for 2 others):")
    print("\n".join(job.table(pairs(found))))
    print("\nTests and messages in an interval in which nothing happens; intervals from deaths until all others know all of"
          "\nthem, the longest of some seeds. Testers believe what they see, but in the last column, where they doubt twice in a row"
          "\nas the library's do. Not simulated: -")
    print("\n".join(job.table(costs(found))))
    print("\nHyperQuickSort of 16 lists, which take 4 s each in each of four rounds; processes are lost in the 5th to"
          "\n15th second; mean:")
    print("\n".join(job.table(sorts(found))))
    print("\nAtomic broadcasts of the thesis's annex A, one message of each member. The annex counts with consensus a copy"
          "\nof each sender to itself and of Paxos what the leader sends in two phases, with UB no message to the sequencer; its"
          "\n16,218 of 126 members is 16,128 by its own formula:")
    print("\n".join(job.table(annex(found))))
    print("\n".join(["\nGoals:", *goals(found)]))
    return list(figures(found)), charts(found)


PARTS = {"simulated": simulated, "jobs": bench_group_jobs.main}


def main(options):
    rows, drawn = [], []
    for part in options.part or PARTS:
        more, pictures = PARTS[part](options)
        rows, drawn = rows + more, drawn + pictures
    if options.csv_fd is not None:
        write_csv(options.csv_fd, rows)
    with os.fdopen(options.svg_fd, "w") as out:
        out.write(bench_times.draw(drawn))
