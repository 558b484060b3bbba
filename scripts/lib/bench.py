"""The benchmarks, inside the container (scripts/bench calls it)."""

import argparse
import subprocess
import sys

import bench_daemon
import bench_faults
import bench_group
import bench_job
import bench_logging
import bench_replication
import bench_ring
import bench_scopes
import bench_start
import bench_transports


def sizes(text):
    """Numbers with commas between them, or none."""
    return [int(word) for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench")
    kinds = parser.add_subparsers(dest="kind", required=True)
    faults = kinds.add_parser("faults")
    faults.add_argument("--runs", type=int, default=20)
    faults.add_argument("--period", default="10ms")
    faults.add_argument("--timeout", default="50ms")
    faults.add_argument("--limit", type=float, default=5)
    faults.add_argument("--fault", action="append", choices=list(bench_faults.FAULTS))
    faults.add_argument("--patience", type=float, default=180)
    faults.add_argument("--csv-fd", type=int, help=argparse.SUPPRESS)
    daemon = kinds.add_parser("daemon")
    daemon.add_argument("--seconds", type=float, default=20)
    daemon.add_argument("--patience", type=float, default=180)
    transports = kinds.add_parser("transports")
    transports.add_argument("--transport", action="append", choices=list(bench_transports.PLACES))
    transports.add_argument("--seconds", type=int, default=30)
    transports.add_argument("--survive", type=int, default=600)
    transports.add_argument("--silences", type=int, default=20)
    transports.add_argument("--patience", type=float, default=180)
    scopes = kinds.add_parser("scopes")
    scopes.add_argument("--part", action="append", choices=list(bench_scopes.PARTS))
    scopes.add_argument("--runs", type=int, default=20)
    scopes.add_argument("--ranks", type=int, choices=range(2, 5), default=2)
    scopes.add_argument("--hosts", type=int, choices=range(1, len(bench_job.HOSTS) + 1))
    scopes.add_argument("--delay", type=int, default=0)
    scopes.add_argument("--quick", action="store_true")
    scopes.add_argument("--patience", type=float, default=180)
    scopes.add_argument("--csv-fd", type=int, help=argparse.SUPPRESS)
    scopes.add_argument("--svg-fd", type=int, required=True, help=argparse.SUPPRESS)
    logging = kinds.add_parser("logging")
    logging.add_argument("--part", action="append", choices=list(bench_logging.PARTS))
    logging.add_argument("--runs", type=int, default=11)
    logging.add_argument("--quick", action="store_true")
    logging.add_argument("--patience", type=float, default=180)
    logging.add_argument("--csv-fd", type=int, help=argparse.SUPPRESS)
    logging.add_argument("--svg-fd", type=int, required=True, help=argparse.SUPPRESS)
    group = kinds.add_parser("group")
    group.add_argument("--part", action="append", choices=list(bench_group.PARTS))
    group.add_argument("--quick", action="store_true")
    group.add_argument("--patience", type=float, default=180)
    group.add_argument("--csv-fd", type=int, help=argparse.SUPPRESS)
    group.add_argument("--svg-fd", type=int, required=True, help=argparse.SUPPRESS)
    replication = kinds.add_parser("replication")
    replication.add_argument("--part", action="append", choices=list(bench_replication.PARTS))
    replication.add_argument("--quick", action="store_true")
    replication.add_argument("--patience", type=float, default=180)
    replication.add_argument("--csv-fd", type=int, help=argparse.SUPPRESS)
    replication.add_argument("--svg-fd", type=int, required=True, help=argparse.SUPPRESS)
    ring = kinds.add_parser("ring")
    ring.add_argument("--members", type=int, action="append")
    ring.add_argument("--rate", type=float)
    ring.add_argument("--busy", action="store_true")
    ring.add_argument("--quick", action="store_true")
    ring.add_argument("--patience", type=float, default=60)
    ring.add_argument("--svg-fd", type=int, required=True, help=argparse.SUPPRESS)
    start = kinds.add_parser("start")
    start.add_argument("--nodes", type=sizes, default=[4, 16, 64, 128])
    start.add_argument("--ranks", type=sizes, default=[8, 64, 256])
    start.add_argument("--system", action="append", choices=list(bench_start.SYSTEMS))
    start.add_argument("--runs", type=int, default=5)
    start.add_argument("--limit", type=float, default=120)
    start.add_argument("--patience", type=float, default=180)
    start.add_argument("--csv-fd", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if any(getattr(options, name, 1) <= 0 for name in ("runs", "seconds", "survive", "silences")):
        parser.error("at least one run, and a time above zero")
    if options.kind == "ring" and (any(members < 4 for members in options.members or ()) or (options.rate or 1) <= 0):
        parser.error("at least four members, and a rate above zero")
    if options.kind == "scopes" and options.delay and (options.hosts not in (None, 2) or options.delay < 0):
        parser.error("--delay is a time between two hosts, so --hosts is 2 if it is said, and the time is above zero")
    try:
        {"faults": bench_faults, "daemon": bench_daemon, "transports": bench_transports,
         "scopes": bench_scopes, "logging": bench_logging, "group": bench_group,
         "replication": bench_replication, "ring": bench_ring, "start": bench_start}[options.kind].main(options)
    except (OSError, subprocess.CalledProcessError) as reason:
        sys.exit(f"bench: {reason}")


if __name__ == "__main__":
    main()
