"""The parts of `scripts/bench scopes` about repairs after a death: several at once, and one beside a reload.

What is done at once hides in the time that messages take. In shared memory they take next to none, and all is work of the
processors: so these parts are measured over a long link, too (`NEEDS_TIME`)."""

import statistics

import bench_times
from bench_job import span
from bench_times import MIB, Median, goal, line, ratio, size_text

# Part of the available memory that a dataset may take: two ranks hold it, and the transport copies it in pieces.
DATASET_SHARE = 8


def share_text(value):
    return f"{value * 100:.0f} %"


class Shrinks:
    """Several non-blocking shrinks at once."""

    NAME, PROGRAM, LIBRARIES, NEEDS_TIME = "shrinks", "shrinks", ("-lringwatch",), True
    JUDGED, GOAL = 8, 0.25
    SHOW = "{:.1f}".format

    def __init__(self, options):
        self.counts = (1, 2, 4, 8, 16) if options.quick else (1, 2, 3, 4, 6, 8, 12, 16)
        self.rounds = 30 if options.quick else 100
        self.single, self.times = [], {count: [] for count in self.counts}  # per communicator, in us

    def measure(self, _number, place):
        times = bench_times.run(self.PROGRAM, ["concurrent", self.rounds, self.counts], place, victims=1)
        yield "", times
        self.single += [ns / 1e3 for ns in times["blocking", "", 1]]
        for count in self.counts:
            self.times[count] += [ns / count / 1e3 for ns in times["ishrink", "", count]]

    def cost(self, count):
        """Cost per communicator over that of one alone in the same round."""
        return Median([a / b for a, b in zip(self.times[count], self.times[1])])

    def report(self):
        rows = [("at once", "", "per communicator (us)", "over one", "published")]
        rows.append(("1, blocking", "", Median(self.single).text(self.SHOW), "", "about 800 us"))
        for count in self.counts:
            published = {1: "as the blocking one", 8: "falls until about here"}.get(count, "")
            each = Median(self.times[count]).text(self.SHOW)
            rows.append((str(count), "", each, self.cost(count).text(ratio), published))
        return ("Repair of communicators whose dead member is known: time until the last survivor has all of them, over their "
                "number."), rows

    def goals(self):
        cost = self.cost(self.JUDGED)
        yield goal(f"{self.JUDGED} ishrinks at once, per communicator over one alone", cost, ratio, self.GOAL)

    def chart(self):
        one = Median(self.times[1]).middle
        series = [
            line("MPIX_Comm_ishrink", 0, "dots", [(count, Median(times)) for count, times in self.times.items()]),
            line("MPIX_Comm_shrink, one after the other", 1, "line",
                 [(count, statistics.median(self.single)) for count in self.counts]),
            line("goal: a quarter of one alone, at 8", 2, "dashed", [(1, one * self.GOAL), (self.JUDGED, one * self.GOAL)]),
            line("published: one shrink (then no figures: falls until about 8 at once)", 0, "published", [(1, 800)])]
        return {"title": "Concurrent MPIX_Comm_ishrink", "log": True, "x": "communicators at once",
                "y": "time per communicator (us)", "series": series}


class Reload:
    """A shrink beside the reload of a dataset from a buddy."""

    NAME, PROGRAM, LIBRARIES, NEEDS_TIME = "reload", "shrinks", ("-lringwatch",), True
    GOAL, TELLS = 0.9, 0.2  # the share, and the widest interval of one that still says something

    def __init__(self, options):
        sizes = (1, 65536, 4 * MIB, 64 * MIB) if options.quick else (1, 1024, 65536, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
        with open("/proc/meminfo") as f:
            available = next(int(text.split()[1]) for text in f if text.startswith("MemAvailable:")) * 1024
        self.sizes = [size for size in sizes if size <= available / DATASET_SHARE]
        self.left_out = [size_text(size) for size in sizes if size not in self.sizes]
        self.seconds = 0.2 if options.quick else 0.5
        self.times = {(what, size): [] for what in ("alone", "shrink", "both") for size in self.sizes}  # in ns
        self.shares = {size: [] for size in self.sizes}

    def measure(self, _number, place):
        times = bench_times.run(self.PROGRAM, ["reload", self.seconds, self.sizes], place, victims=1)
        yield "", times
        for size in self.sizes:
            alone, shrink, both = (times["reload", what, size] for what in ("alone", "shrink", "both"))
            shorter = min(statistics.median(alone), statistics.median(shrink))
            # More is not possible, nor less: then they are as long as one after the other, or the times differ.
            shares = ((a + s - b) / shorter for a, s, b in zip(alone, shrink, both))
            self.shares[size] += [min(max(share, 0), 1) for share in shares]
            for what, values in (("alone", alone), ("shrink", shrink), ("both", both)):
                self.times[what, size] += values

    def report(self):
        rows = [("size", "", "reload", "shrink", "ishrink and reload", "hidden", "published")]
        for size in self.sizes:
            published = {1: "shrink: about 800 us", 4 * MIB: "all hidden from here"}.get(size, "")
            times = (span(statistics.median(self.times[what, size])) for what in ("alone", "shrink", "both"))
            share = Median(self.shares[size])
            hidden = share.text(share_text) if self.tells(share) else "?"
            rows.append((size_text(size), "", *times, hidden, published))
        text = ("A dataset that one rank hands to another in one message, a blocking shrink, and MPIX_Comm_ishrink with the same\n"
                "message; hidden: how much less than the sum of the first two that took, over the shorter one; ?: the times differ\n"
                "too much to tell.")
        return text + (f"\nLeft out, for want of memory: {', '.join(self.left_out)}." if self.left_out else ""), rows

    def tells(self, share):
        return share.high - share.low <= self.TELLS

    def goals(self):
        shares = {size: Median(values) for size, values in self.shares.items()}
        told = {size: share for size, share in shares.items() if self.tells(share)}
        untold = [size_text(size) for size in shares if size not in told]
        if told:
            size, worst = min(told.items(), key=lambda item: item[1].middle)
            reached = [size_text(size) for size, share in told.items() if share.middle >= self.GOAL]
            what = f"share of the shorter one hidden, worst size ({size_text(size)})"
            text = goal(what, worst, share_text, self.GOAL, most=False)
            yield f"{text} (reached at: {', '.join(reached) or 'none'})"
        if untold:
            yield f"share of the shorter one hidden: the times differ too much to tell at {', '.join(untold)}"

    def chart(self):
        names = {"alone": ("reload alone", 0, "line"), "shrink": ("blocking shrink alone", 1, "line"),
                 "both": ("ishrink and reload at once", 2, "dots")}
        series = []
        for what, (text, colour, look) in names.items():
            points = [(size, Median([ns / 1e6 for ns in self.times[what, size]])) for size in self.sizes]
            series.append(line(text, colour, look, points))
        series.append(line("published: one shrink; as long as a reload of 1 to 4 MB", 0, "published",
                           [(MIB, 0.8), (4 * MIB, 0.8)]))
        return {"title": "Shrink beside the reload of a dataset", "log": True, "x": "dataset (bytes)", "y": "time (ms)",
                "series": series}
