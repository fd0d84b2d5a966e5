#!/usr/bin/env python3
"""Measures `syncd serve` with and without a million other accounts in its store, side by side.

    Benchmarks/peers/crowd.py --syncd PROGRAM --crowd PROGRAM [--crowd-accounts 1000000] [--rounds 5]

Both servers have the same active accounts, each with a document of 300 bytes. One store also has the crowd: copies of one
account without its sessions. Rounds alternate between the servers, and figures are medians of the rounds. All servers
listen on 127.0.0.1 only.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from comparison import measuring
from comparison.process import Failure
from comparison.servers import SyncD

SIZE = 300


def prepared(options, folder, name):
    server = SyncD(str(options.syncd), folder / name)
    server.name = name
    server.start()
    server.prepare([f"user{number:05}" for number in range(options.accounts)], [SIZE])
    return server


def fill(options, server):
    """Stops a server, fills its store with the crowd, and starts it again."""
    server.stop()
    begun = time.monotonic()
    ran = subprocess.run(
        [options.crowd, "--store", server.folder / "store.sqlite", "--like", server.names[0], "--count",
         str(options.crowd_accounts)], capture_output=True, text=True, timeout=3_600)
    if ran.returncode:
        raise Failure(" ".join(ran.stderr.split()))
    size = (server.folder / "store.sqlite").stat().st_size
    print(f"{ran.stdout.strip()} in {time.monotonic() - begun:.0f} s; the store has {size / 1e9:.2f} GB", flush=True)
    begun = time.monotonic()
    server.start()
    print(f"ready again after {time.monotonic() - begun:.2f} s", flush=True)


def run(options, folder):
    few, crowded = prepared(options, folder, "without"), prepared(options, folder, "with the crowd")
    try:
        fill(options, crowded)
        rows = []
        for number in range(options.rounds):
            for what in ("read", "write"):
                for server in (few, crowded) if number % 2 == 0 else (crowded, few):
                    lines = getattr(server, what + "s")(SIZE)
                    mode = server.write_mode if what == "write" else "plain"
                    rows.append(measuring.measure(
                        what, SIZE, number, server, lines, options, folder, options.connections, mode))
        for what in ("read", "write"):
            rates = [measuring.median_rate(rows, what, SIZE, server.name) for server in (few, crowded)]
            print(f"{what}: {rates[0]:,.0f}/s without, {rates[1]:,.0f}/s with: {rates[1] / rates[0] * 100:.1f} %")
        for server in (few, crowded):
            memory = statistics.median(row["memory"] for row in rows if row["server"] == server.name)
            print(f"memory {server.name}: {memory / (1 << 20):.0f} MiB")
    finally:
        for server in (few, crowded):
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", type=pathlib.Path, required=True, help="a release build")
    parser.add_argument("--crowd", type=pathlib.Path, required=True, help="a release build")
    parser.add_argument("--accounts", type=int, default=1_000, help="that ask")
    parser.add_argument("--crowd-accounts", type=int, default=1_000_000, help="that do not")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    options = parser.parse_args()
    for name, low, high in (
            ("accounts", 32, 10_000), ("crowd_accounts", 1, 9_999_999), ("connections", 1, 512), ("rounds", 1, 99),
            ("seconds", 1, 300)):
        if not low <= getattr(options, name) <= high:
            parser.error(f"--{name.replace('_', '-')} is from {low} to {high}")
    for name in ("syncd", "crowd"):
        path = getattr(options, name)
        if not path.exists():
            parser.error(f"--{name}: {path} is not there")
        setattr(options, name, path.resolve())
    if not shutil.which("wrk"):
        parser.error("wrk is not there")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="crowd-"))
    try:
        run(options, folder)
    except (Failure, subprocess.SubprocessError) as error:
        print(f"crowd: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
