#!/usr/bin/env python3
"""Measures the projection of a server, side by side with the same server without one.

    Benchmarks/peers/projection.py --syncd PROGRAM --crowd PROGRAM --server-load PROGRAM [--customers 1000000]
        [--rounds 5] [--seconds 5] [--folder FOLDER]

For SQLite and for PostgreSQL, in one run:

- durable writes a second, of purchases and of entries, at a server with a projection and at one without. Rounds alternate
  between the two, and figures are medians of the rounds,
- the time of `syncd store reindex` for a store of CUSTOMERS customers with three purchases each,
- the time of the questions of the API at that size: the median and the 95th percentile of 200 random ones.

The server is Debian's PostgreSQL in a temporary folder, with its default settings, on 127.0.0.1. Processes are ended by
their ids.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ci/lib"))

import runbook
from database import Database
from runbook import Failure

CATALOG = {
    "products": [
        {"id": "month", "type": "nonRenewing", "group": "nights", "duration": "P30D"},
        {"id": "owl", "type": "nonConsumable"}],
    "entitlements": [
        {"id": "nights", "grantedBy": ["group:nights"]}, {"id": "owl", "grantedBy": ["product:owl"]}]}
MODEL = "model"
PURCHASES = ["month", "month", "owl"]

# The questions of the API. `{n}` is a random customer.
QUESTIONS = {
    "search by a prefix": [
        "SELECT alias, account FROM aliases WHERE alias >= 'model{n}' AND alias < 'model{n}~' ORDER BY alias LIMIT 20",
        "SELECT account FROM customers WHERE account >= 'model{p}' AND account < 'model{p}~' ORDER BY account LIMIT 20"],
    "search by a transaction": [
        "SELECT account FROM purchases WHERE transaction_id = 't{n}-1' LIMIT 20",
        "SELECT account FROM purchases WHERE original_id = 't{n}-2' LIMIT 20"],
    "statistics": [
        "SELECT measure, product, day, count FROM statistics WHERE environment = 'production' "
        "ORDER BY measure, product, day"],
    "a customer's rows": [
        f"SELECT * FROM {view} WHERE account = 'model{{n}}'" for view in (
            "customers_v1", "aliases_v1", "purchases_v1", "periods_v1", "subscriptions_v1", "entitlements_v1",
            "events_v1", "acts_v1")],
}
AIMS = {"search by a prefix": 50, "search by a transaction": 50, "statistics": 100, "a customer's rows": 200}


class Measurement:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.environment = runbook.environment(options.syncd, folder)
        self.catalog = folder / "catalog.json"
        self.catalog.write_text(json.dumps(CATALOG))
        self.database = Database(folder / "database")
        self.servers = []

    def syncd(self, *arguments):
        result = subprocess.run(
            ["/usr/bin/env", "syncd", *map(str, arguments)], env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"syncd {' '.join(map(str, arguments))}: {result.stderr.strip()}")
        return result.stdout.strip()

    def server(self, store, *arguments):
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        server = runbook.Server(self.environment, place, [
            "--store", store, "--catalog", str(self.catalog), "--name", "https://projection.example", "--log-level",
            "error", "--limit", "account-writes=none", "--limit", "sign-ups=none", "--limit", "address-requests=none",
            "--limit", "stranger-requests=none", "--limit", "account-keys=none", "--limit", "account-bytes=none",
            *arguments])
        server.start()
        self.servers.append(server)
        return server

    def post(self, server, path, value, token=None):
        fields = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        request = urllib.request.Request(server.url + path, json.dumps(value).encode(), fields)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def sign_up(self, server, name):
        return self.post(server, "/v1/accounts", {"name": name, "password": runbook.PASSWORD})["access_token"]

    # Writes

    def requests(self, tokens, number):
        """A file with purchases that no round before had, of many accounts in turn."""
        path = self.folder / "requests"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with open(path, "w") as file:
            for index in range(self.options.purchases):
                item = {"kind": "reported", "product": PURCHASES[index % 3], "transaction": f"r{number}-{index}",
                        "date": now}
                file.write(json.dumps({
                    "method": "POST", "path": "/v1/transactions", "body": json.dumps({"evidence": [item]}),
                    "fields": {"Authorization": f"Bearer {tokens[index % len(tokens)]}",
                               "Content-Type": "application/json"}}) + "\n")
        return path

    def load(self, server, *arguments):
        result = subprocess.run(
            [self.options.server_load, server.url, "--seconds", str(self.options.seconds), "--connections", "32",
             "--json", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"server-load: {result.stderr.strip()} {result.stdout.strip()}")
        return json.loads(result.stdout)

    def compare_writes(self, name, stores):
        plain, projecting = self.server(stores[0]), self.server(stores[1], "--projection")
        tokens = [[self.sign_up(server, f"w{number}") for number in range(self.options.accounts)]
                  for server in (plain, projecting)]
        for work in ("purchases", "entries"):
            pairs = []
            for number in range(self.options.rounds):
                pair = []
                for server, own in zip((plain, projecting), tokens):
                    arguments = ["--work", "write"]
                    if work == "purchases":
                        arguments = ["--requests", self.requests(own, number)]
                    pair.append(self.rate(self.load(server, *arguments)))
                    self.settle(projecting)
                pairs.append(pair)
            without, with_one = (statistics.median(column) for column in zip(*pairs))
            ratio = statistics.median(second / first for first, second in pairs)
            print(f"{f'{name}: {work}/s':40}{without:12.0f}{with_one:12.0f}{ratio:8.2f}", flush=True)
        for server in (plain, projecting):
            server.stop()

    @staticmethod
    def rate(report):
        return report["perSecond"]

    def settle(self, server):
        """Waits until the rows have all changes."""
        def is_settled():
            with urllib.request.urlopen(server.url + "/readyz", timeout=60) as response:
                text = response.read().decode()
            age = re.search(r"had all changes (\d+) s ago", text)
            return age and int(age.group(1)) <= 1
        runbook.wait_until("the rows have all changes", is_settled)

    # Size

    def fill(self, store):
        server = self.server(store)
        token = self.sign_up(server, MODEL)
        now = time.time()
        for index, product in enumerate(PURCHASES):
            date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - 86_400 * (20 - index)))
            self.post(server, "/v1/transactions", {"evidence": [
                {"kind": "reported", "product": product, "transaction": f"t0000000-{index}", "date": date}]}, token)
        server.stop()
        path = store.removeprefix("sqlite:")
        result = subprocess.run(
            [self.options.crowd, "--store", path, "--like", MODEL, "--count", str(self.options.customers)],
            capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"crowd: {result.stderr.strip()}")

    def reindex(self, name, store):
        began = time.monotonic()
        print(f"  {self.syncd('store', 'reindex', store, '--catalog', self.catalog)}", flush=True)
        elapsed = time.monotonic() - began
        print(f"{f'{name}: rebuild of {self.options.customers} customers, seconds':64}{elapsed:8.0f}  (aim 900)", flush=True)

    def ask(self, name, query):
        """Prints the times of the questions. `query` returns the milliseconds of a list of statements."""
        for question, statements in QUESTIONS.items():
            times = []
            for _ in range(200):
                n = f"{random.randint(1, self.options.customers):07}"
                times.append(query([text.format(n=n, p=n[:5]) for text in statements]))
            times.sort()
            line = f"{times[100]:12.2f}{times[190]:12.2f}  (aim {AIMS[question]})"
            print(f"{f'{name}: {question}, ms, median and p95':40}{line}", flush=True)

    def ask_sqlite(self, path):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

        def query(statements):
            began = time.perf_counter()
            for statement in statements:
                database.execute(statement).fetchall()
            return (time.perf_counter() - began) * 1_000
        self.ask("SQLite", query)
        database.close()

    def ask_postgresql(self):
        psql = subprocess.Popen(
            [f"{Database.programs}/psql", "-XAtq", "-h", "127.0.0.1", "-p", str(self.database.port), "-U", "syncd", "-d",
             "crowd"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        psql.stdin.write("SET search_path = entitlementsync_projection;\n")

        def query(statements):
            began = time.perf_counter()
            psql.stdin.write(";\n".join(statements) + ";\n\\echo done\n")
            psql.stdin.flush()
            while psql.stdout.readline() != "done\n":
                pass
            return (time.perf_counter() - began) * 1_000
        self.ask("PostgreSQL", query)
        psql.stdin.close()
        psql.wait()

    def run(self):
        self.database.create()
        self.database.start("max_wal_size=4GB")
        for name in ("plain", "projecting", "crowd"):
            self.database.ask(f"CREATE DATABASE {name}")
        remote = "postgres://syncd@127.0.0.1:%d/%s?sslmode=disable"
        if self.options.rounds:
            print(f"{'':40}{'without':>12}{'with':>12}{'ratio':>8}")
            self.compare_writes("SQLite", [f"sqlite:{self.folder}/{name}.sqlite" for name in ("plain", "projecting")])
            self.compare_writes(
                "PostgreSQL", [remote % (self.database.port, name) for name in ("plain", "projecting")])
        if self.options.customers:
            store = f"sqlite:{self.folder}/crowd.sqlite"
            began = time.monotonic()
            self.fill(store)
            print(f"  filled in {time.monotonic() - began:.0f} s", flush=True)
            self.reindex("SQLite", store)
            self.ask_sqlite(self.folder / "crowd.projection.sqlite")
            copy = remote % (self.database.port, "crowd")
            print(f"  {self.syncd('store', 'copy', store, copy)}", flush=True)
            self.reindex("PostgreSQL", copy)
            self.database.ask("VACUUM ANALYZE", "crowd")
            self.ask_postgresql()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("syncd", "crowd", "server-load"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--customers", type=int, default=1_000_000, help="the customers (default: 1,000,000; 0: none)")
    parser.add_argument("--rounds", type=int, default=5, help="the number of rounds (default: 5; 0: none)")
    parser.add_argument("--seconds", type=int, default=5, help="the duration of a round (default: 5)")
    parser.add_argument("--accounts", type=int, default=200, help="the accounts that buy (default: 200)")
    parser.add_argument("--purchases", type=int, default=40_000, help="the purchases of a round (default: 40,000)")
    parser.add_argument("--folder", help="the folder for temporary files")
    options = parser.parse_args()
    for program in (options.syncd, options.crowd, options.server_load):
        if not os.access(program, os.X_OK):
            sys.exit(f"projection: {program} is missing; run: make projection")
    if Database.programs is None:
        sys.exit("projection: PostgreSQL is missing; run: .ci/setup postgresql")
    options.syncd, options.crowd = options.syncd.resolve(), options.crowd.resolve()
    options.server_load = options.server_load.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="projection-", dir=options.folder))
    folder.chmod(0o711)
    measurement = Measurement(folder, options)
    try:
        measurement.run()
    except Failure as failure:
        sys.exit(f"projection: {failure}")
    finally:
        for server in measurement.servers:
            server.stop()
        measurement.database.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
