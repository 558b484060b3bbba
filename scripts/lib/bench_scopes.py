"""`scripts/bench scopes`: what error scope, uniform collectives and non-blocking shrink cost and save.

What the paper published stands beside it: Bouteiller and Bosilca, "Implicit Actions and Non-blocking Failure Recovery
with MPI" (2022), section IV: 768 ranks on 64 nodes with QDR InfiniBand.
"""

import csv
import os
import statistics

import bench_job as job
import bench_times
from bench_job import span
from bench_repairs import Reload, Shrinks
from bench_times import MIB, DecileDifference, Median, QuartileRatio, decile, goal, line, percent, points, quartile, ratio, size_text


class Scopes:
    """Latency, bandwidth and allreduce with each scope, beside an MPI without ringwatch."""

    NAME, PROGRAM, LIBRARIES, NEEDS_TIME = "scopes", "scopes", (), False
    SCOPES, FIGURES = ("local", "group", "global"), ("latency", "bandwidth", "allreduce")
    JUDGED = {"latency": 8, "bandwidth": MIB, "allreduce": 8}
    GOAL, PUBLISHED = 1.01, {"latency": "+10 % (2.22 to 2.45 us, group)"}

    PAIRS = 4  # of processes with and without ringwatch in a run

    def __init__(self, options):
        self.sizes = (8, MIB) if options.quick else (8, 1024, 32768, MIB)
        self.arguments = (5, 2) if options.quick else (20, 2)
        self.times = {True: [], False: []}  # by process, with ringwatch or without; medians over the rounds
        self.costs = {}
        self.has_off = False  # whether a process with ringwatch was measured with Open MPI's own functions, too

    def measure(self, _number, place):
        # Over a link a turn of the loop is nothing, and there is no transport in whose place ringwatch is.
        self.has_off = place.hosts == 1
        for wanted in (True, False, False, True) * (self.PAIRS // 2):
            system = f"ringwatch {'on' if wanted else 'off'}"
            job.install(wanted)
            off = ["off"] if wanted and self.has_off else []
            times = bench_times.run(self.PROGRAM, [*self.arguments, self.sizes, *off], place)
            served = {scope for what, scope, _ in times if what == "served"}
            if served != ({*self.SCOPES, *off} if wanted else set()):
                raise OSError(f"of the scopes {', '.join(served) or 'none'} is in force with {system}")
            yield system, times
            self.times[wanted].append({key: statistics.median(values) for key, values in times.items()})

    def of(self, wanted, figure, variant, size):
        """Times of all processes with ringwatch, or without."""
        return [times[figure, variant, size] for times in self.times[wanted]]

    def uninstalled(self, figure, size, processes=slice(None)):
        """Times of processes without ringwatch, in which the scope means nothing."""
        return [statistics.median(times[figure, scope, size] for scope in self.SCOPES)
                for times in self.times[False][processes]]

    def cost(self, figure, variant, size):
        """Time over that with Open MPI's own functions: of the same process, or of one without ringwatch."""
        key = figure, variant, size
        if key not in self.costs:
            times = self.of(True, figure, variant, size)
            self.costs[key] = Median([a / b for a, b in zip(times, self.of(True, figure, "off", size))]) if self.has_off else \
                QuartileRatio(times, self.uninstalled(figure, size))
        return self.costs[key]

    def controls(self, figure, size):
        """What can be told apart in one process, and in two: the same, measured twice; and the latter beside ringwatch."""
        every_other, rest = (self.uninstalled(figure, size, slice(first, None, 2)) for first in (0, 1))
        several = QuartileRatio(every_other, rest).text(points)
        if not self.has_off:
            return several, "", ""
        whole = QuartileRatio(self.of(True, figure, "off", size), self.uninstalled(figure, size))
        return self.cost(figure, "again", size).text(points), several, whole.text(points)

    def report(self):
        names = ("off, again", "uninstalled, again", "off over uninstalled") if self.has_off else ("off, again", "", "")
        rows = [("", "size", "off", *self.SCOPES, *names, "published")]
        for figure in self.FIGURES:
            for size in self.sizes:
                off = statistics.median(self.of(True, figure, "off", size)) if self.has_off else \
                    quartile(self.uninstalled(figure, size))
                costs = (self.cost(figure, scope, size).text(points) for scope in self.SCOPES)
                shown = f"{size / off:.3g} GB/s" if figure == "bandwidth" else span(off)
                published = self.PUBLISHED.get(figure, "unchanged") if size == self.JUDGED[figure] else ""
                rows.append((figure, size_text(size), shown, *costs, *self.controls(figure, size), published))
        text = "Extra time of an operation with ringwatch and an error scope, in per cent; all jobs with --with-ft ulfm.\n"
        text += ("off: Open MPI's own functions are back in the places of ringwatch's, in the same processes, in turn; medians of\n"
                 "the processes. off, again: the same once more, which is what can be told apart so. uninstalled: processes without\n"
                 "ringwatch, lower quartiles, since a virtual machine may run some at half speed; again: half of them over the others."
                 if self.has_off else
                 "off: ringwatch is uninstalled; lower quartiles of the processes, of which a virtual machine may run some at half\n"
                 "speed. off, again: of half of those without it over the others: what can be told apart here.")
        return text, rows

    def goals(self):
        for figure, size in self.JUDGED.items():
            worst = max((self.cost(figure, scope, size) for scope in self.SCOPES), key=lambda cost: cost.middle)
            yield goal(f"{figure}, {size_text(size)}, worst scope", worst, percent, self.GOAL)

    def chart(self):
        """A chart for each figure: in each the scopes have a colour, a mark and dashes of their own."""
        return [self.chart_of(figure) for figure in self.FIGURES]

    def chart_of(self, figure):
        series = [line(f"scope {scope}", colour, "dots", [(size, (self.cost(figure, scope, size).middle - 1) * 100) for size in self.sizes])
                  for colour, scope in enumerate(self.SCOPES)]
        series.append(line("goal", 3, "dashed", [(size, (self.GOAL - 1) * 100) for size in self.sizes]))
        if figure == "latency":
            series.append(line("published: scope group", 0, "published", [(8, 10)]))
        return {"title": f"Error scope, {figure}: extra time with ringwatch, nobody dies", "log": False, "x": "message (bytes)",
                "y": "extra time (%)", "series": series}


class Calls:
    """What ringwatch adds to the calls of a rank by itself."""

    NAME, PROGRAM, LIBRARIES, NEEDS_TIME = "calls", "scopes", (), False
    FIGURES, PAIRS, BYTES = ("message", "collective", "turn"), 4, 8

    def __init__(self, options):
        self.arguments = (5, 5) if options.quick else (10, 5)
        self.times = {True: [], False: []}  # by process; the best of the rounds

    def measure(self, _number, _place):
        alone = bench_times.Place(1, 1)
        for wanted in (True, False, False, True) * (self.PAIRS // 2):
            job.install(wanted)
            times = bench_times.run(self.PROGRAM, [*self.arguments, (self.BYTES,)], alone)
            yield f"ringwatch {'on' if wanted else 'off'}", times
            self.times[wanted].append({key: min(values) for key, values in times.items()})

    def off(self, figure):
        return [min(times[figure, scope, self.BYTES] for scope in Scopes.SCOPES) for times in self.times[False]]

    def report(self):
        rows = [("", "", "off (ns)", *(f"{scope} (ns more)" for scope in Scopes.SCOPES))]
        for figure in self.FIGURES:
            off = self.off(figure)
            added = (DecileDifference([times[figure, scope, self.BYTES] for times in self.times[True]], off)
                     for scope in Scopes.SCOPES)
            rows.append((figure, "", f"{decile(off):.1f}", *(difference.text("{:+.1f}".format) for difference in added)))
        return ("A message of 8 B to itself, an allreduce of one rank, and a turn of the progress loop (MPI_Test), with ringwatch\n"
                "and without (uninstalled), both with --with-ft ulfm: lowest deciles of the processes, of each the best round.", rows)

    def goals(self):
        return ()

    def chart(self):
        return None


class Uniform:
    """Uniform collectives, and the agreement that a program makes by hand, beside plain ones."""

    NAME, PROGRAM, LIBRARIES, NEEDS_TIME = "uniform", "uniform", (), False
    OPERATIONS = ("barrier", "bcast", "reduce", "allreduce", "alltoall")
    # The paper counts the agreement as two small allreduces (section III), which it adds to every operation.
    PUBLISHED = 3

    def __init__(self, options):
        self.sizes = (8, 4096, MIB) if options.quick else (8, 64, 512, 4096, 32768, 262144, MIB)
        self.arguments = (4, 2) if options.quick else (6, 5)
        self.times, self.absent = {}, False

    def measure(self, _number, place):
        times = bench_times.run(self.PROGRAM, [*self.arguments, self.sizes], place)
        self.absent = ("absent", "coll", 0) in times
        yield "", times
        for key, values in times.items():
            self.times.setdefault(key, []).extend(values)

    def cost(self, operation, size, variant, base="local"):
        """Times of a variant over those of another in the same round."""
        pairs = zip(self.times[operation, variant, size], self.times[operation, base, size])
        return Median([a / b for a, b in pairs])

    def cases(self):
        yield "barrier", 0
        yield from ((operation, size) for operation in self.OPERATIONS[1:] for size in self.sizes)

    def report(self):
        rows = [("", "size", "local", "coll / local", "by hand / local", "coll / by hand", "published")]
        for operation, size in self.cases():
            local = span(statistics.median(self.times[operation, "local", size]))
            coll = ("-", "-") if self.absent else (self.cost(operation, size, "coll").text(ratio),
                                                   self.cost(operation, size, "coll", "agree").text(ratio))
            published = f"about {self.PUBLISHED}" if (operation, size) == ("allreduce", 8) else ""
            rows.append((operation, size_text(size) if size else "", local, coll[0],
                         self.cost(operation, size, "agree").text(ratio), coll[1], published))
        text = ("Time of an operation at its slowest rank; coll: the info key mpix_error_uniform is coll; by hand: the operation,\n"
                "then MPIX_Comm_agree. Published: an agreement of about two small allreduces is added to each operation; the\n"
                "difference decreases with the size.")
        return text + ("\nuniform: this build does not have it" if self.absent else ""), rows

    def goals(self):
        if self.absent:
            yield "uniform: this build does not have it"
            return
        small, large = self.cost("allreduce", 8, "coll"), self.cost("allreduce", MIB, "coll")
        yield goal("uniform allreduce of 8 B over local", small, ratio, 2)
        yield goal("uniform allreduce of 1 MiB over local", large, percent, 1.02)
        costs = {case: self.cost(*case, "coll", "agree") for case in self.cases()}
        (operation, size), worst = max(costs.items(), key=lambda item: item[1].middle)
        name = f"{operation}, {size_text(size)}" if size else operation
        yield goal(f"uniform over by hand, worst case ({name})", worst, ratio, 1)

    def chart(self):
        series = []
        for variant, text, look in (("coll", "uniform", "dots"), ("agree", "by hand", "dashed"))[self.absent:]:
            for colour, operation in enumerate(self.OPERATIONS[1:]):
                points = [(size, self.cost(operation, size, variant)) for size in self.sizes]
                series.append(line(f"{operation}, {text}", colour, look, points))
        series.append(line("published: allreduce and agreement, as counted", 0, "published", [(8, self.PUBLISHED)]))
        title = "Agreement by hand (this build has no uniform collectives)" if self.absent else "Uniform collectives"
        return {"title": title + ": time over that of plain ones", "log": True, "x": "message (bytes)", "y": "time over local",
                "series": series}


PARTS = {part.NAME: part for part in (Scopes, Calls, Uniform, Shrinks, Reload)}


def places(options):
    """Where each part is measured: {part: places}."""
    names = dict.fromkeys(options.part or PARTS)
    if options.hosts is not None:
        return {name: [bench_times.Place(options.ranks, options.hosts, options.delay)] for name in names}
    near, far = bench_times.Place(options.ranks, 1), bench_times.Place(options.ranks, 2, options.delay or bench_times.FAR)
    return {name: [near, far] if PARTS[name].NEEDS_TIME else [near] for name in names}


def main(options):
    parts = [(PARTS[name](options), place) for name, where in places(options).items() for place in where]
    job.prepare()
    next((place.lengthen() for _, place in parts if place.delay), None)
    job.install(True)
    quiet = job.Quiet(options.patience)
    print("\n".join(job.machine()))
    print(f"{options.runs} run{'s' * (options.runs > 1)} of all parts in turn, ringwatch with its default parameters; medians unless said, and in "
          "brackets\nthe interval in which they lie with 95 % if the times are independent", flush=True)
    for program, libraries in dict.fromkeys((part.PROGRAM, part.LIBRARIES) for part, _ in parts):
        bench_times.compile_program(program, *libraries)
    rows = [("part", "place", "run", "system", "what", "variant", "size", "round", "ns")]
    for number in range(options.runs):
        for part, place in parts:
            job.note(f"  run {number + 1}/{options.runs}: {part.NAME}, {place.name()}")
            quiet.wait()
            job.install(True)
            for system, times in part.measure(number, place):
                rows += [(part.NAME, place.name(), number, system, *key, turn, ns)
                         for key, values in times.items() for turn, ns in enumerate(values)]
        job.say(f"  run {number + 1}/{options.runs} is done")
    for part, place in parts:
        text, table = part.report()
        print(f"\n{part.__doc__}\n{place}.\n{text}\n")
        print("\n".join(job.table(table)))
    print("\n" + quiet.summary())
    goals = [f"  {place.name()}: {text}" for part, place in parts for text in part.goals()]
    if goals:
        print("\n".join(["\nGoals:", *goals]))
    if options.csv_fd is not None:
        with os.fdopen(options.csv_fd, "w", newline="") as out:
            csv.writer(out).writerows(rows)
    with os.fdopen(options.svg_fd, "w") as out:
        warning = quiet.summary() if quiet.disturbed() else ""
        drawn = [(place, part.chart()) for part, place in parts]
        several = [(place, one) for place, chart in drawn if chart for one in (chart if isinstance(chart, list) else [chart])]
        charts = [{"subtitle": str(place), "warning": warning, **chart} for place, chart in several]
        out.write(bench_times.draw(charts) if charts else "")
