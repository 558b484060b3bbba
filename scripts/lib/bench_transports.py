"""`scripts/bench transports`: what a heartbeat costs on each transport, how fast silence is seen, how small a period may be."""

import json
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import bench_job as job
from bench_job import span

NAME = "transports"
# How much longer than on a real machine all times are in an emulated one.
SCALE = 20
GUESTS = ("10.78.0.1", "10.78.0.2")
GOAL_CHECK_NS, GOAL_PERCENT, GOAL_MIB = 50, 0.1, 8


class Place:
    """Where the two ends are; `around` is put before the command of each end."""

    def __init__(self, text, carrier, addresses, around=((), ()), guests=False):
        self.text, self.carrier, self.addresses, self.around, self.guests = text, carrier, addresses, around, guests


ALL = ("costs", "idle", "busy")
HOSTS = ("10.77.0.1", "10.77.0.2"), (("rw-on", "h1"), ("rw-on", "h2"))
PLACES = {
    # An address for each: they are measured side by side. `ringwatchd`, measured with UDP, takes no address but an interface's.
    "shared": Place("shared memory", "shared", ("127.0.0.2", "127.0.0.2")),
    "udp-loopback": Place("UDP, loopback", "udp", ("127.0.0.1", "127.0.0.1")),
    "udp-hosts": Place("UDP, virtual hosts", "udp", *HOSTS),
    "udp-guests": Place("UDP, guests (emulated)", "udp", GUESTS, guests=True),
    "verbs-guests": Place("RDMA, rxe in guests (emulated)", "verbs", GUESTS, guests=True),
}


def program(name):
    """Builds a benchmark of rdma-heartbeat, of which cargo alone knows the place."""
    words = ["cargo", "bench", "--offline", "--quiet", "--no-run", "--message-format=json", "-p", "rdma-heartbeat",
             "--bench", name]
    output = subprocess.run(words, cwd="/src", check=True, capture_output=True, text=True).stdout
    built = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return next(item["executable"] for item in built
                if item.get("executable") and item["target"]["name"] == name)


def check_of_the_flag():
    """Nanoseconds, median, of a look that finds nothing new."""
    words = ["cargo", "bench", "--offline", "--quiet", "-p", "rdma-heartbeat", "--bench", "flag", "--", "check"]
    result = subprocess.run(words, cwd="/src", check=True, capture_output=True, text=True)
    match = re.search(r"check\s.*", result.stdout)
    times = re.findall(r"([\d.]+) (ns|µs)", match[0]) if match else []
    if len(times) < 3:
        sys.exit(f"bench: the benchmark of the flag printed no times:\n{result.stdout}{result.stderr}")
    return float(times[2][0]) * (1000 if times[2][1] == "µs" else 1)


def commands(place, executable, parts, options):
    """The command lines of the emitter and of the observer for these figures; in guests both are one."""
    own, peer = place.addresses
    factor, silences = (SCALE, max(3, options.silences // 4)) if place.guests else (1, options.silences)
    seconds = options.seconds * (2 if place.guests else 1)
    measure = [executable, "measure", own, peer, place.carrier, "--scale", str(factor), "--seconds", str(seconds),
               "--survive", str(options.survive), "--silences", str(silences),
               *(word for part in parts for word in ("--part", part))]
    serve = [executable, "serve", peer]
    if not place.guests:
        return [[*place.around[1], *serve], [*place.around[0], *measure]]
    # Two loads, some steps of the ladder, and what an emulated machine needs to start.
    limit = 600 + 8 * seconds + 4 * options.survive
    choice = f'if [ "$RW_GUEST" = 1 ]; then exec {" ".join(measure)}; else exec {" ".join(serve)}; fi'
    return [["rw-guests", "--guests", "2", "--time", str(limit), "--", "bash", "-c", choice]]


def run(place, executable, parts, options):
    """These figures of a place, in their order; None, and why on standard error, if they could not all be measured."""
    figures, other = [], []
    started = []
    try:
        for words in commands(place, executable, parts, options):
            started.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True))
        for line in started[-1].stdout:
            line = re.sub(r"^\[guest \d\] ", "", line)
            if line.startswith("{"):
                figures.append(json.loads(line))
                job.note(f"  {place.text}: {figures[-1]['figure']}")
            else:
                other.append(line)
        status = started[-1].wait()
    finally:
        for process in started:
            process.kill()
            process.wait()
    if status:
        job.say(f"bench: {place.text}: left out, status {status}\n" + "".join(other[-40:]))
        return None
    return figures


def values(figures, name):
    return [figure["values"] for figure in figures if figure["figure"] == name]


def cost_rows(results):
    rows = [("transport", "", "period", "sender", "(timer)", "observer", "(timer)", "suspected after", "at most",
             "timeout")]
    for place, figures in results:
        cost, seen = values(figures, "cost")[0], values(figures, "detection")[0]
        times = [us * 1000 for us in seen["times_us"]]
        turns = [span(ns) for pair in zip(cost["turn_ns"], cost["timer_ns"]) for ns in pair]
        rows.append((place.text, "", f"{cost['period_ms']} ms", *turns, span(statistics.median(times)),
                     span(max(times)), f"{seen['timeout_ms']} ms"))
    return rows


def sleep_rows(results):
    rows = [("transport", "", "heartbeats", "arrived", "processor time", "without any", "times woken", "then, to look")]
    for place, figures in results:
        without, with_them = values(figures, "asleep")
        rows.append((place.text, "", str(with_them["beats"]), str(with_them["arrived"]), span(with_them["sleep_ns"]),
                     span(without["sleep_ns"]), f"{with_them['switches']} ({without['switches']})",
                     span(with_them["look_ns"])))
    return rows


def survival_rows(results):
    rows = [("transport", "", "load", "smallest period", "without a miss for", "longest silence", "below that")]
    for place, figures in results:
        for load in ("Idle", "Busy"):
            steps = [step for step in values(figures, "survival") if step["load"] == load]
            held = [step for step in steps if step["held"]]
            failed = [f"{step['period_ms']} ms: {verdict(step)}" for step in steps if not step["held"]]
            first = (f"{held[0]['period_ms']} ms", f"{held[0]['seconds']:.0f} s", silence(held[0])) if held else ("none", "", "")
            rows.append((place.text, "", load.lower(), *first, failed[-1] if failed else "not tried"))
    return rows


def silence(step):
    longest = step["longest_us"]
    return span(longest * 1000) if longest else "each look found one"


def verdict(step):
    what = "declared" if step["declared"] else "missed" if step["misses"] else f"{step['lost']} lost"
    return f"{what} after {step['seconds']:.3g} s"


def daemon_rows(results):
    rows = [("ringwatchd, idle", "", "period", "% of a core", "peak MiB", "reached")]
    for place, figures in results:
        for daemon in values(figures, "daemon"):
            percent = max(node["percent"] for node in daemon["nodes"])
            peak = max(node["peak_kib"] for node in daemon["nodes"]) / 1024
            checks = [("memory", peak <= GOAL_MIB)]
            if not place.guests:
                checks.insert(0, ("processor", percent <= GOAL_PERCENT))
            reached = ", ".join(f"{what} {'yes' if held else 'NO'}" for what, held in checks)
            rows.append((place.text, "", f"{daemon['period_ms']} ms", f"{percent:.3f}", f"{peak:.1f}", reached))
    return rows


def main(options):
    job.prepare()
    executable = program(NAME)
    quiet = job.Quiet(options.patience)
    print("\n".join(job.machine()))
    quiet.wait()
    check = check_of_the_flag()
    places = [PLACES[name] for name in options.transport or PLACES]
    found = {place: [] for place in places}

    def measure(together, parts):
        """Adds these figures to those of the places; who could not be measured has none."""
        quiet.wait()
        busy = job.Busy()
        with ThreadPoolExecutor(len(together)) as pool:
            for place, figures in zip(together, pool.map(lambda place: run(place, executable, parts, options), together)):
                found[place] = None if figures is None or found[place] is None else found[place] + figures
        names = ", ".join(place.text for place in together)
        job.say(f"  {names}: measured {', '.join(parts)}, {busy.share():.0%} of all cores in use meanwhile")

    beside = [place for place in places if not place.guests]
    for place in beside:
        measure([place], ("costs",))
    # Ten minutes each: side by side, because heartbeats take next to nothing of the machine.
    for part in ("idle", "busy") if beside else ():
        measure(beside, (part,))
    for place in places:
        if place.guests:
            measure([place], ALL)
    results = [(place, figures) for place, figures in found.items() if figures is not None]
    real = [result for result in results if not result[0].guests]
    print("\nProcessor time per period at each end, and what of it waking up once a period takes without heartbeats; "
          "time from\nthe last heartbeat to the suspicion, median and highest. Times in emulated guests say nothing "
          "about speed.\n")
    print("\n".join(job.table(cost_rows(results))))
    print("\nAn observer that sleeps in one system call while heartbeats come: its processor time and how often it "
          "was put on a\ncore, with them and without any, and its processor time for the look afterwards. This "
          "machine may have no counter\nof instructions: a thread that is woken up once, by its own timer, has run "
          "none for a heartbeat.\n")
    print("\n".join(job.table(sleep_rows(results))))
    print(f"\nSmallest period of 1, 2, 5, 10, ... ms (emulated: times {SCALE}) that survives {options.survive:g} s: no "
          "heartbeat lost, none more than one\nand a half periods late, nobody declared after 10 periods; busy: "
          "two computing processes per core and end of each transport that is measured at the same time\n(--transport measures "
          "one).\n")
    print("\n".join(job.table(survival_rows(results))))
    if any(values(figures, "daemon") for _, figures in results):
        print(f"\nGoals: {GOAL_PERCENT} % of a core and {GOAL_MIB} MiB at a period of 10 ms; the higher of two nodes, "
              "one rank each;\nthe processor share of emulated guests is no measure of it.\n")
        print("\n".join(job.table(daemon_rows(results))))
    print(f"\none check of a flag: {check:.3g} ns (median), goal {GOAL_CHECK_NS} ns: "
          f"{'met' if check < GOAL_CHECK_NS else 'NOT MET'}")
    if real:
        print(quiet.summary())
    if len(results) < len(places):
        sys.exit(1)
