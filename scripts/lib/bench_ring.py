"""`scripts/bench ring`: how fast the members of a ring know of a death, beside the members of foca and of memberlist (SWIM)."""

import json
import math
import os
import statistics
import subprocess

import bench_job as job
import bench_times
from bench_times import line
from bench_transports import program

NAME = "ring"
SIZES, QUICK_SIZES = (4, 16, 64, 256), (4, 16, 64)
GROUPS = (2, 4, 8)
# Datagrams that a member sends in a second: 256 members at 100 would take more than two cores.
RATES = {256: 25}
RATE = 100
# A member of memberlist's, where its packages were to be had.
MEMBERLIST = "/src/target/trixie/memberlist"
KINDS = {"ringwatch": "ringwatchd", "foca": "foca"} | ({"memberlist": "memberlist"} if os.path.exists(MEMBERLIST) else {})


def scale(members):
    """What foca and memberlist multiply their periods by."""
    return max(1.0, math.log10(members))


# Settings in periods, from the smallest that each allows; memberlist's is a whole number of scales.
LADDERS = {"ringwatch": lambda _: (3, 4, 5, 7, 10, 15, 20), "foca": lambda _: (0.1, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 12),
           "memberlist": lambda members: [times * scale(members) for times in (1, 2, 3, 4, 6, 8)]}
# foca's is that of its Config::new_lan, memberlist's that of its DefaultLANConfig.
USUAL = {"ringwatch": lambda _: 10, "foca": lambda members: 4 * scale(members), "memberlist": lambda members: 4 * scale(members)}
# Further rings in which several die at once, of the size of the goals.
AGAIN = 2
# What a member and its rank take, with room; below that 256 members are left out.
MEMBER_KIB = 12 << 10
GOAL_AT, GOAL_SPREAD = 64, 2
# How many times as long the others are to take.
GOAL_RATIOS = {"foca": 3, "memberlist": 10}
LIMIT = 110  # seconds that one ring may take


class Result:
    """What one ring has shown."""

    def __init__(self, figures):
        self.figures = figures
        self.idle = self.one("idle")
        self.after = self.one("after")
        self.is_clean = bool(self.idle and self.idle["started"] and not self.idle["false"] and self.after
                             and not self.after["false"])

    def of(self, name):
        return [figure["values"] for figure in self.figures if figure["figure"] == name]

    def of_groups(self):
        return [figure for figure in self.figures if figure["figure"] == "death" and figure["values"]["at_once"] > 1]

    def one(self, name):
        return next(iter(self.of(name)), None)

    def why(self):
        """What keeps this setting from being clean."""
        if not self.idle:
            return "no figures"
        if not self.idle["started"]:
            return self.idle["why"]
        if self.idle["false"]:
            return f"{self.idle['false']} falsely declared"
        return f"{self.after['false']} falsely declared later" if self.after else "ended early"


def run(executable, kind, members, periods, options, singles, groups):
    """One ring with this setting; its time limit is that of the processes in it."""
    rate = options.rate or RATES.get(members, RATE)
    words = [executable, "measure", kind, "--members", str(members), "--rate", str(rate), "--periods", f"{periods:g}",
             "--seconds", str(3 if options.quick else 8), "--singles", str(singles)]
    words += ["--groups", ",".join(map(str, groups))] if groups else []
    words += ["--busy"] if options.busy else []
    words += ["--program", MEMBERLIST] if kind == "memberlist" else []
    job.note(f"  {members} members, {KINDS[kind]}, {periods:.3g} periods")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
        output, status = done.stdout, done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        output, status = (late.stdout or b"").decode(), f"not done after {LIMIT} s"
    result = Result([json.loads(text) for text in output.splitlines() if text.startswith("{")])
    verdict = "clean" if result.is_clean else f"not clean: {result.why()}"
    last = [one["last_us"] for one in result.of("death") if one["fault"] == "cut" and one["at_once"] == 1]
    known = f", {job.span(statistics.median(last) * 1000)} to the last" if last else ""
    job.say(f"  {members} members, {KINDS[kind]}, {periods:.3g} periods: {verdict}{known}{' ' + status.strip()[-200:] if status else ''}")
    return result


def fits(members):
    """Whether this machine has the memory for so many members."""
    with open("/proc/meminfo") as f:
        free = int(next(text for text in f if text.startswith("MemAvailable")).split()[1])
    return free > 2 * members * MEMBER_KIB


def smallest(executable, kind, members, options, singles, groups):
    """(periods, its result, the setting below it that is not clean or None); result None if none is clean."""
    below = None
    for periods in LADDERS[kind](members):
        result = run(executable, kind, members, periods, options, singles, groups)
        if result.is_clean:
            return periods, result, below
        below = periods
    return None, None, below


def times(result, **wanted):
    """Times in ns to the first and to the last other member of the deaths of this kind."""
    deaths = [one for one in result.of("death") if all(one[name] == value for name, value in wanted.items())]
    return [one["first_us"] * 1000 for one in deaths], [one["last_us"] * 1000 for one in deaths]


def spread(values):
    """Median and maximum."""
    return f"{job.span(statistics.median(values))}, {job.span(max(values))}" if values else "-"


def death_rows(found):
    rows = [("members", "", "setting", "cut: first", "last", "killed: last", "rank killed: last", "unknown to")]
    for (members, kind, name), (periods, result, _) in found.items():
        cells = [spread(values) for wanted in ("cut", "killed", "rank killed")
                 for values in times(result, fault=wanted, at_once=1)[wanted != "cut":]]
        missing = sum(one["missing"] for one in result.of("death"))
        rows.append((str(members), KINDS[kind], f"{name}, {periods:.3g} periods", *cells, str(missing)))
    return rows


def group_rows(found):
    rows = [("members", "", "setting", *(f"{size} {place}" for size in GROUPS for place in ("neighbours", "scattered")))]
    for (members, kind, name), (periods, result, _) in found.items():
        cells = [spread(times(result, at_once=size, place=place)[1]) for size in GROUPS
                 for place in ("neighbours", "scattered")]
        if any(cell != "-" for cell in cells):
            rows.append((str(members), KINDS[kind], f"{name}, {periods:.3g} periods", *cells))
    return rows


def cost_rows(found):
    rows = [("members", "", "setting", "datagrams/s of each", "of a death, all", "% of a core, each", "after the deaths",
             "not clean")]
    for (members, kind, name), (periods, result, below) in found.items():
        deaths = result.one("deaths")
        rows.append((str(members), KINDS[kind], f"{name}, {periods:.3g} periods", f"{result.idle['datagrams']:.0f}",
                     f"{deaths['datagrams']:.0f}" if deaths else "-", f"{result.idle['percent']:.2f}",
                     f"{result.after['percent']:.2f}" if result.after else "-",
                     f"{below:.3g} periods" if below else "not tried" if name == "usual" else "none smaller"))
    return rows


def last_of(found, members, kind, name):
    entry = found.get((members, kind, name))
    return times(entry[1], fault="cut", at_once=1)[1] if entry else []


def goals(found, sizes):
    for members, name in ((members, name) for members in sizes if members >= GOAL_AT for name in ("usual", "smallest")):
        ours = last_of(found, members, "ringwatch", name)
        if not ours:
            continue
        width = max(ours) / statistics.median(ours)
        met = "met" if width <= GOAL_SPREAD else "NOT MET"
        yield f"  {members} members, {name} setting: the longest of ringwatchd is {width:.2f} medians, goal {GOAL_SPREAD}: {met}"
        for kind, goal in GOAL_RATIOS.items():
            if not (others := last_of(found, members, kind, name)):
                continue
            ratio = statistics.median(others) / statistics.median(ours)
            met = "met" if ratio >= goal else "NOT MET"
            yield f"  {members} members, {name} setting: {KINDS[kind]} takes {ratio:.2f} times as long, goal {goal}: {met}"


def charts(found, sizes, subtitle):
    colours = {pair: place for place, pair in enumerate((kind, name) for kind in KINDS for name in ("usual", "smallest"))}
    by_size, by_group = [], []
    for (kind, name), colour in colours.items():
        points = [(members, statistics.median(values) / 1e6) for members in sizes
                  if (values := last_of(found, members, kind, name))]
        by_size.append(line(f"{KINDS[kind]}, {name} setting", colour, "dots", points))
    largest = max(members for members in sizes if members <= GOAL_AT)
    for place, look in (("neighbours", "dots"), ("scattered", "dashed")):
        for kind in KINDS:
            entry = found.get((largest, kind, "smallest"))
            points = [(size, statistics.median(last) / 1e6) for size in GROUPS
                      if entry and (last := times(entry[1], at_once=size, place=place)[1])]
            by_group.append(line(f"{KINDS[kind]}, {place}", colours[kind, "smallest"], look, points))
    return [{"title": "From the cut of a member to the last other one's knowledge", "subtitle": subtitle, "x": "members",
             "y": "ms", "log": True, "series": by_size},
            {"title": f"Several of {largest} members at once", "subtitle": "Each at its smallest clean setting; median",
             "x": "members that are cut off at once", "y": "ms", "log": True, "is_linear": True, "series": by_group}]


def main(options):
    executable = program(NAME)
    quiet = job.Quiet(options.patience)
    print("\n".join(job.machine()[:1]), flush=True)
    if "memberlist" not in KINDS:
        print("memberlist is left out: Debian's packages of it and of Go were not to be had.")
    sizes = [members for members in options.members or (QUICK_SIZES if options.quick else SIZES) if fits(members)]
    found = {}
    for members in sizes:
        singles = min(3 if options.quick else 5, max(1, members // 8))
        groups = [size for size in GROUPS if size + 2 < members]
        for kind in KINDS:
            quiet.wait()
            usual = USUAL[kind](members)
            result = run(executable, kind, members, usual, options, singles, ())
            if result.is_clean:
                found[members, kind, "usual"] = usual, result, None
            periods, result, below = smallest(executable, kind, members, options, singles, groups)
            if not result:
                continue
            found[members, kind, "smallest"] = periods, result, below
            for _ in range(AGAIN if members == GOAL_AT and not options.quick else 0):
                result.figures += run(executable, kind, members, periods, options, 0, groups).of_groups()
    rate = options.rate or RATE
    load = "beside two processes per core that compute" if options.busy else "no load beside them"
    print(f"\nRings on this machine, all members real processes of the same priority, loopback; {rate:g} datagrams a second of "
          f"each member\n(256 members: {options.rate or RATES[256]:g}); {load}. Datagrams of ringwatchd are authenticated, the others' are "
          "not. Settings: the\ntimeout of ringwatchd, the time from suspicion to declaration of foca and memberlist, in periods of theirs, "
          "of which one has\ntwo datagrams; usual: the default of ringwatch, of foca's Config::new_lan and of memberlist's "
          "DefaultLANConfig; smallest:\nwithout a false declaration.\n\nFrom the death of one member to the first and to the last other one that knows it; median, longest:\n")
    print("\n".join(job.table(death_rows(found))))
    print("\nFrom the cut of several at once to the last other one that knows all; median, longest:\n")
    print("\n".join(job.table(group_rows(found))))
    print("\nWhat the members cost, idle and after the deaths:\n")
    print("\n".join(job.table(cost_rows(found))))
    print("\n" + quiet.summary())
    print("\n".join(["\nGoals:", *goals(found, sizes)]))
    with os.fdopen(options.svg_fd, "w") as out:
        out.write(bench_times.draw(charts(found, sizes, f"Real processes on one machine, {rate:g} datagrams a second of each; median")))
