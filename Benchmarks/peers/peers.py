#!/usr/bin/env python3
"""Compares `syncd serve` with other self-hosted servers, side by side on this machine.

    Benchmarks/peers/peers.py --syncd PROGRAM --bare-route PROGRAM --server-load PROGRAM [--rounds 3]
        [--chart FILE] [--page FILE]

PocketBase and Kinto are installed from PyPI into a temporary folder. Every server has the same accounts, each with a
document of 300 bytes and one of 3,000 bytes that only its owner may read and write. wrk measures the servers one after the
other in alternating rounds, and figures are medians of the rounds. All servers listen on 127.0.0.1 only.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from comparison import chart, measuring, report
from comparison.process import Failure
from comparison.servers import (
    BareRoute, DurablePocketBase, Kinto, MemorySyncD, PocketBase, SyncD, UnsyncedSyncD)

HERE = pathlib.Path(__file__).resolve().parent
SIZES = [300, 3_000]


def install(folder):
    """Installs PocketBase and Kinto."""
    programs = folder / "programs"
    subprocess.run([sys.executable, "-m", "venv", programs], check=True, timeout=300)
    subprocess.run(
        [programs / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
         "--requirement", HERE / "requirements.txt"], check=True, timeout=900)
    return programs / "bin"


def servers(options, programs, folder):
    syncd, pocketbase = str(options.syncd), str(programs / "pocketbase")
    made = [BareRoute(str(options.bare_route), folder / f"bare-{size}", size) for size in SIZES]
    made += [
        SyncD(syncd, folder / "syncd"),
        original := PocketBase(pocketbase, folder / "pocketbase"),
        DurablePocketBase(pocketbase, folder / "pocketbase-full", original),
        MemorySyncD(syncd, folder / "syncd-memory"),
        Kinto(folder / "kinto", programs),
    ]
    if UnsyncedSyncD.library():
        made.insert(3, UnsyncedSyncD(syncd, folder / "syncd-unsynced"))
    return made


def run(options, folder):
    names = [f"user{number:05}" for number in range(options.accounts)]
    running = servers(options, options.programs or install(folder), folder)
    # The one with the default password hashing.
    careful = SyncD(str(options.syncd), folder / "syncd-careful", cost=17)
    careful.name = "syncd, scrypt 2^17"
    try:
        for server in running:
            begun = time.monotonic()
            server.start()
            server.prepare(names, SIZES)
            print(f"{server.name} {server.version()}: ready after {time.monotonic() - begun:.0f} s", flush=True)
        careful.start()
        careful.prepare(names[:8], SIZES)
        pocketbase = next(server for server in running if type(server) is PocketBase)
        figures = measuring.rounds(running, SIZES, options, folder)
        for server in running:
            if isinstance(server, DurablePocketBase):
                server.check()
        figures += measuring.logins([careful, pocketbase], options, folder)
        open_loop = measuring.open_loop(
            [next(server for server in running if type(server) is SyncD), pocketbase], figures, options, folder)
        facts = {
            "machine": report.machine(), "accounts": options.accounts, "connections": options.connections,
            "seconds": options.seconds, "rounds": options.rounds, "pocketbasePragma": pocketbase.pragmas(),
            "servers": [{"name": server.name, "version": server.version(), "durability": server.durability}
                        for server in dict((server.name, server) for server in running).values()],
        }
        return facts, figures, open_loop
    finally:
        for server in [*running, careful]:
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", type=pathlib.Path, required=True, help="a release build")
    parser.add_argument("--bare-route", type=pathlib.Path, required=True, help="a release build")
    parser.add_argument("--server-load", type=pathlib.Path, required=True, help="a release build")
    parser.add_argument("--folder", type=pathlib.Path, help="for everything; a new one that is removed at the end")
    parser.add_argument("--programs", type=pathlib.Path, help="a folder that has pocketbase and kinto already")
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6, help="of each measurement")
    parser.add_argument("--page", type=pathlib.Path, help="write the tables here, as a page that shows the chart")
    parser.add_argument("--chart", type=pathlib.Path, help="write the chart here")
    options = parser.parse_args()
    for name, low, high in (
            ("accounts", 32, 10_000), ("connections", 1, 512), ("rounds", 1, 99), ("seconds", 1, 300)):
        if not low <= getattr(options, name) <= high:
            parser.error(f"--{name} is from {low} to {high}")
    for name in ("syncd", "bare_route", "server_load", "programs"):
        path = getattr(options, name)
        if path:
            if not path.exists():
                parser.error(f"--{name.replace('_', '-')}: {path} is not there")
            setattr(options, name, path.resolve())
    if not shutil.which("wrk"):
        parser.error("wrk is not there (make peers installs it)")
    folder = (options.folder or pathlib.Path(tempfile.mkdtemp(prefix="peers-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        facts, figures, open_loop = run(options, folder)
        if options.folder:
            (folder / "figures.json").write_text(
                json.dumps({"facts": facts, "figures": figures, "openLoop": open_loop}, indent=1))
        text = report.markdown(facts, figures, open_loop)
        print("\n" + text)
        if options.chart:
            options.chart.write_text(chart.svg(facts, figures))
        if options.page:
            picture = os.path.relpath(options.chart, options.page.parent) if options.chart else None
            options.page.write_text(report.page(text, picture))
    except (Failure, subprocess.SubprocessError) as error:
        print(f"peers: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
