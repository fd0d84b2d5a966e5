#!/usr/bin/env python3
"""Compares the store in PostgreSQL with pgbench on the same tables, side by side.

    Benchmarks/peers/database.py --database-load PROGRAM [--clients 32] [--seconds 5] [--rounds 5] [--changes 10000000]

pgbench runs the statements of the store, prepared, one transaction for each. Rounds alternate between the two, and figures
are medians of the rounds. The server is Debian's PostgreSQL in a temporary folder, with its default settings, on 127.0.0.1.
The last row is the time until a new process follows a store with many changes.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ci/lib"))

from database import Database
from runbook import Failure

SCHEMA = "entitlementsync"
SCRIPTS = {
    "read": """
\\set n random(0, 9999)
SELECT version, CASE WHEN version = NULL::bytea THEN NULL ELSE value END, value IS NULL
    FROM %(schema)s.entry WHERE key = convert_to('bench/' || :n, 'UTF8');
""",
    "write": """
\\set n random(0, 9999)
WITH written AS (
    INSERT INTO %(schema)s.entry AS e
        VALUES (convert_to('bench/' || :n, 'UTF8'), '\\x00112233445566778899aabbccddeeff',
            convert_to(repeat('x', 1000), 'UTF8'))
    ON CONFLICT (key) DO UPDATE SET version = EXCLUDED.version, value = EXCLUDED.value RETURNING key, version)
INSERT INTO %(schema)s.pending (tag, key, version) SELECT :n, key, version FROM written RETURNING true;
""",
}


class Comparison:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.database = Database(folder / "server")
        self.url = f"postgres://syncd@127.0.0.1:{self.database.port}/postgres?sslmode=disable"

    def load(self, work):
        arguments = ["--clients", self.options.clients, "--seconds", self.options.seconds]
        result = subprocess.run(
            [self.options.database_load, "--url", self.url, "--work", work, *map(str, arguments)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"database-load: {result.stderr.strip()}")
        return float(result.stdout)

    def pgbench(self, work):
        script = self.folder / f"{work}.sql"
        script.write_text(SCRIPTS[work] % {"schema": SCHEMA})
        script.chmod(0o644)
        output = self.database.run(
            "pgbench", "--no-vacuum", "--protocol=prepared", f"--client={self.options.clients}", "--jobs=2",
            f"--time={self.options.seconds}", f"--file={script}", "-h", "127.0.0.1", "-p", self.database.port,
            "-U", "syncd", "postgres")
        return float(re.search(r"tps = ([0-9.]+)", output).group(1))

    def add_changes(self, count):
        """Gives the store `count` numbered changes, as many writes would have left them."""
        self.database.ask(
            f"INSERT INTO {SCHEMA}.change SELECT f.n + i, i, convert_to('bench/' || i % 10000, 'UTF8'), "
            f"'\\x00112233445566778899aabbccddeeff' FROM {SCHEMA}.feed f, generate_series(1, {count}) i")
        self.database.ask(f"UPDATE {SCHEMA}.feed SET n = n + {count}")

    def run(self):
        self.database.create()
        self.database.start()
        self.load("fill")
        print(f"{'':32}{'pgbench':>12}{'store':>12}{'ratio':>8}")
        for work in ("read", "write"):
            pairs = [(self.pgbench(work), self.load(work)) for _ in range(self.options.rounds)]
            peer, own = (statistics.median(column) for column in zip(*pairs))
            ratio = statistics.median(own / peer for peer, own in pairs)
            print(f"{f'{work}s/s, {self.options.clients} at a time':32}{peer:12.0f}{own:12.0f}{ratio:8.2f}", flush=True)
        if self.options.changes:
            self.load("follow")
            self.add_changes(self.options.changes)
            print(f"follow {self.options.changes} changes, seconds: {self.load('follow'):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database-load", type=pathlib.Path, required=True, help="the program that loads the store")
    parser.add_argument("--clients", type=int, default=32, help="the number of clients (default: 32)")
    parser.add_argument("--seconds", type=int, default=5, help="the duration of a round (default: 5)")
    parser.add_argument("--rounds", type=int, default=5, help="the number of rounds (default: 5)")
    parser.add_argument("--changes", type=int, default=10_000_000, help="the changes to follow (default: 10,000,000)")
    options = parser.parse_args()
    if not os.access(options.database_load, os.X_OK):
        sys.exit(f"database: {options.database_load} is missing; run: make database")
    if Database.programs is None:
        sys.exit("database: PostgreSQL is missing; run: .ci/setup postgresql")
    options.database_load = options.database_load.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="database-"))
    folder.chmod(0o711)
    comparison = Comparison(folder, options)
    try:
        comparison.run()
    except Failure as failure:
        sys.exit(f"database: {failure}")
    finally:
        comparison.database.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
