"""Fuzzes a real `syncd serve` by its OpenAPI document, with schemathesis.

Run it through `.ci/fuzz-api`, which installs the requirements. It starts a server over SQLite, sends requests without a
session, as an account, as an erased account and as the operator, opens event streams, and guesses passwords. Afterwards
the server must still run, must have sent neither a 5xx nor an answer that the document lacks, must end on SIGTERM, and
must leave an undamaged store.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / ".ci/lib"))

from runbook import PATIENCE

DOCUMENT = ROOT / "Sources/SyncServer/Resources/openapi.yaml"
CATALOG = ROOT / "Examples/insomniowl.json"
OPERATOR = "the-token-of-the-operator-while-fuzzing"
ROLES = ("anonymous", "account", "erased", "operator")


class Failure(Exception):
    """A failed check."""


class Server:
    """`syncd serve` over SQLite in a folder."""

    def __init__(self, syncd, folder):
        self.syncd, self.folder = syncd, folder
        self.store = f"sqlite:{folder / 'server.sqlite'}"
        self.clean = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_")}
        token = folder / "operator"
        token.touch(0o600)
        token.write_text(OPERATOR + "\n")
        with open(folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [syncd, "serve", "--store", self.store, "--catalog", CATALOG, "--listen", "127.0.0.1:0",
                 "--password-cost", "10", "--operator-token-file", token],
                stdout=subprocess.PIPE, stderr=log, env=self.clean)
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on "):
            self.kill()
            raise Failure("the server did not start: " + self.log()[-2000:])
        self.url = line.split()[-1]
        self.address = urllib.parse.urlsplit(self.url).netloc

    def log(self):
        return (self.folder / "server.log").read_text(errors="replace")

    def tool(self, *arguments):
        done = subprocess.run(
            [self.syncd, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.clean,
            timeout=PATIENCE, check=False)
        if done.returncode:
            raise Failure(f"syncd {' '.join(map(str, arguments))} exited with status {done.returncode}: "
                          + (done.stdout + done.stderr).decode(errors="replace").strip())
        return done.stdout

    def post(self, path, body, token=None):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST")
        if token:
            request.add_header("Authorization", "Bearer " + token)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def sees(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
                answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"{path} after the requests: {error}; the end of the server log:\n{self.log()[-2000:]}")

    def stop(self):
        self.process.terminate()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure("the server did not exit after SIGTERM") from None
        if status:
            raise Failure(f"the server exited with status {status}: {self.log()[-2000:]}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def arrange(server, folder):
    """Creates the test data: an account with a purchase, an erased account, and the ledger of a device."""
    password = "a password for fuzzing"
    other, erased = (server.post("/v1/accounts", {"name": name, "password": password}) for name in ("other", "gone"))
    server.post("/v1/accounts/self/erasure", {"password": password}, erased["access_token"])
    local = ["--local", f"file:{folder / 'device'}", "--account", "device", "--catalog", CATALOG]
    server.tool("account", "create", "device", *local[:2], *local[4:])
    server.tool("record", "purchase", "com.back40.InsomniOwl.3monthsOfRandom", "--transaction", "T1", *local)
    ledger = server.tool("export", "--format", "ledger", *local)
    key = f"/v1/kv/accounts/{other['account']}/{other['incarnation']}/ledger"
    request = urllib.request.Request(server.url + key, ledger, {
        "Authorization": "Bearer " + other["access_token"], "If-None-Match": "*",
        "Content-Type": "application/octet-stream"}, method="PUT")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        answer.read()
    world = folder / "world.json"
    world.write_text(json.dumps({
        "patience": PATIENCE,
        "url": server.url, "operator": OPERATOR, "erased": erased["access_token"], "ledger": ledger.hex(),
        "other": {"account": other["account"], "incarnation": other["incarnation"]}}))
    return world


def run_schemathesis(role, server, world, options):
    """Runs schemathesis once and returns a failure or `None`."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml", "run", DOCUMENT,
        "--exclude-tag", "Device", "--url", server.url, "--seed", str(options.seed), "--max-examples", str(options.examples), "--no-color",
        "--workers", str(options.workers)]
    environment = {**server.clean, "FUZZ_AS": role, "FUZZ_WORLD": str(world), "PYTHONPATH": str(HERE),
                   "PYTHONDONTWRITEBYTECODE": "1"}
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            # It writes files to its working directory.
            status = subprocess.run(
                list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=world.parent,
                timeout=options.limit, check=False).returncode
        except subprocess.TimeoutExpired:
            status = f"a timeout after {options.limit} s"
        output.seek(0)
        said = output.read().decode(errors="replace")
    cases = re.search(r"Test cases:\n *(.*)", said)
    count = cases[1] if cases else "no report of its cases"
    print(f"as {role}: {count} ({time.monotonic() - started:.0f} s)", flush=True)
    if options.verbose or status != 0 or not cases:
        print(said, flush=True)
    if status != 0 or not cases:
        return f"as {role}: schemathesis ended with {status}; see above"
    return None


def try_streams(server, seed, rounds):
    """Opens event streams, which never end, and checks the head and the first bytes."""
    generator = random.Random(seed)
    token = server.post("/v1/accounts", {"name": "reader", "password": "a password for fuzzing"})["access_token"]
    letters = "0123456789abcdef-XYZ %&\u00ff"
    for _ in range(rounds):
        cursor = generator.choice([
            "", "0-0000000000000000", f"{generator.randrange(20)}-{generator.randrange(2**64):016x}",
            "".join(generator.choices(letters, k=generator.randrange(40))), "9" * 40 + "-" + "f" * 16])
        headers = {"Accept": generator.choice(["text/event-stream", "application/json, text/event-stream;q=0.5"])}
        if generator.random() < 0.9:
            headers["Authorization"] = "Bearer " + generator.choice([token, token, OPERATOR, token[:-2], ""])
        if generator.random() < 0.5:
            headers["Last-Event-ID"] = cursor.encode("latin-1")
        path = "/v1/changes" + ("?after=" + urllib.parse.quote(cursor) if generator.random() < 0.5 else "")
        connection = http.client.HTTPConnection(server.address, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            kind = answer.headers.get_content_type()
            if answer.status == 200:
                if kind != "text/event-stream" or not answer.read1(64).startswith(b"retry: "):
                    raise Failure(f"not an event stream: {path} {headers}: {kind}")
            elif answer.status not in (400, 401, 410) or kind != "application/problem+json":
                raise Failure(f"unexpected answer to a stream request: {answer.status} {kind}: {path} {headers}")
        finally:
            connection.close()


def try_guessing(server):
    """Sends wrong passwords from one address until the server answers 429."""
    body = urllib.parse.urlencode({"grant_type": "password", "username": "other", "password": "wrong"})
    for _ in range(60):
        connection = http.client.HTTPConnection(server.address, timeout=PATIENCE, source_address=("127.254.254.254", 0))
        try:
            connection.request(
                "POST", "/v1/sessions", body, {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            problem = json.loads(answer.read())
        finally:
            connection.close()
        if problem.get("status") != answer.status or answer.headers.get_content_type() != "application/problem+json":
            raise Failure(f"a wrong password returned {answer.status} with {problem}")
        if answer.status == 429:
            if not 0 < int(answer.headers["Retry-After"] or 0) <= 3600:
                raise Failure(f"429 with Retry-After: {answer.headers['Retry-After']}")
            return
        if (answer.status, problem.get("error")) != (400, "invalid_grant"):
            raise Failure(f"a wrong password returned {answer.status} with {problem}")
    raise Failure("60 wrong passwords from one address did not lead to 429")


def documented():
    """The documented statuses of each method and path of the server."""
    with open(DOCUMENT, encoding="utf-8") as file:
        paths = yaml.safe_load(file)["paths"]
    return {(method.upper(), path): {int(status) for status in operation["responses"]}
            for path, operations in paths.items() for method, operation in operations.items()
            if method != "parameters" and operation["tags"] != ["Device"]}


# Statuses that any path may answer: an unknown path, or a request whose body is not read.
ANYWHERE = {"none": {404, 400}, "unread": {408, 413, 415}}


def judge(server):
    """Checks the server log for errors and for answers that the document lacks. Returns the faults."""
    known = documented()
    paths = {path for _, path in known}
    counts, faults = {}, set()
    for line in server.log().splitlines():
        # Mistakes of a client are not logged as errors.
        if re.search(r"^\S+ (error|critical) ", line):
            faults.add(line.split(" ", 1)[1])
        found = re.search(r"method=(\S+) .*route=(\S+) status=(\d+)", line)
        if not found:
            continue
        method, route, status = found[1], found[2], int(found[3])
        counts[status] = counts.get(status, 0) + 1
        method = "GET" if method == "HEAD" else method
        if status >= 500:
            fits = False
        elif route in ANYWHERE:
            fits = status in ANYWHERE[route]
        elif (method, route) in known:
            fits = status in known[method, route]
        else:
            optioned = method == "OPTIONS" and route.startswith(("/v1", "/.well-known", "/mcp"))
            fits = route in paths and status == (204 if optioned else 405)
        if not fits:
            faults.add(f"{method} {route} answered {status}")
    total = sum(counts.values())
    print(f"the server answered {total} requests: "
          + ", ".join(f"{count} with {status}" for status, count in sorted(counts.items())), flush=True)
    if not total:
        faults.add("the server log has no request")
    return sorted(faults)


def fuzz(options, folder):
    failures = []
    server = Server(options.syncd, folder)
    try:
        world = arrange(server, folder)
        for role in options.roles:
            failure = run_schemathesis(role, server, world, options)
            failures += [failure] if failure else []
            server.sees("/healthz")
            server.sees("/readyz")
        try_streams(server, options.seed, options.streams)
        print(f"{options.streams} event streams were opened", flush=True)
        try_guessing(server)
        print("wrong passwords from one address end in 429", flush=True)
        server.stop()
        failures += judge(server)
        server.tool("store", "check", server.store)
        print("the server exited and its store is undamaged", flush=True)
    finally:
        server.kill()
        if options.keep:
            (pathlib.Path(options.keep)).write_text(server.log())
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", required=True, help="the program to test")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random choices")
    parser.add_argument("--examples", type=int, default=20, help="maximum number of cases for each operation and phase")
    parser.add_argument("--streams", type=int, default=100, help="number of event streams")
    parser.add_argument("--limit", type=int, default=1800, help="time limit for each role, in seconds")
    parser.add_argument("--workers", type=int, default=1, help="concurrent requests; with more than one, a seed is not reproducible")
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES, help="kinds of callers")
    parser.add_argument("--keep", help="file for a copy of the server log")
    parser.add_argument("--verbose", action="store_true", help="print the output of schemathesis")
    options = parser.parse_args()
    print(f"seed of the requests: {options.seed}", flush=True)
    started = time.monotonic()
    # SIGTERM must end the server and schemathesis too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        try:
            failures = fuzz(options, pathlib.Path(folder))
        except Failure as failure:
            failures = [str(failure)]
    for failure in failures:
        print(f"fuzz-api: {failure}", file=sys.stderr)
    print(f"fuzz-api: {'FAILED' if failures else 'passed'} after {time.monotonic() - started:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
