"""The measurements and their order."""

import concurrent.futures
import copy
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import time

from .load import drive
from .process import Failure


class Machine:
    """The load of the whole machine."""

    def __init__(self):
        self.start, self.busy = time.monotonic(), self.busy_seconds()

    @staticmethod
    def busy_seconds():
        fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        # Everything except idle time, I/O wait, and guest time, which is counted twice.
        return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")

    def others(self, ours):
        """The number of processors that were busy with other processes."""
        elapsed = time.monotonic() - self.start
        return max(0, (self.busy_seconds() - self.busy - ours) / elapsed)


def children_seconds():
    times = os.times()
    return times.children_user + times.children_system


def measure(what, size, number, server, lines, options, folder, connections, mode="plain"):
    machine, before = Machine(), children_seconds()
    used = server.process.processor_seconds()
    figures = drive(server, lines, folder, options.seconds, connections, mode)
    mine = children_seconds() - before + server.process.processor_seconds() - used
    row = {
        "what": what, "size": size, "round": number, "server": server.name, "rate": figures.rate,
        "count": figures.count, "median": figures.median, "p99": figures.p99, "p999": figures.p999,
        "serverCores": figures.cores, "otherCores": machine.others(mine), "memory": server.process.memory(),
    }
    print(
        f"round {number}: {what:5} {size:5} {server.name:18} {figures.rate:8.0f}/s  server {figures.cores:.2f}, others "
        f"{row['otherCores']:.2f} processors", flush=True)
    return row


def rounds(servers, sizes, options, folder):
    """Measures every server in every round. The first server of a round rotates."""
    rows = []
    for number in range(options.rounds):
        order = servers if number % 2 == 0 else servers[::-1]
        for what in ("read", "write"):
            for size in sizes:
                for server in order:
                    lines = getattr(server, what + "s")(size)
                    if lines is None:
                        continue
                    mode = server.write_mode if what == "write" else "plain"
                    rows.append(
                        measure(what, size, number, server, lines, options, folder, options.connections, mode))
    return rows


def logins(servers, options, folder):
    """Measures log-ins over few connections, because more would only wait for a processor."""
    # Log-ins are slow, so a short round has too few of them.
    options = copy.copy(options)
    options.seconds = max(10, options.seconds)
    rows = []
    for number in range(options.rounds):
        rows += [measure("login", 0, number, server, server.logins(8), options, folder, 4) for server in servers]
        rows.append(
            {"what": "login", "size": 0, "round": number, "server": SCRYPT, "rate": scrypt_rate(options.seconds)})
    return rows


SCRYPT = "scrypt 2^17 alone, by OpenSSL"


def scrypt_rate(seconds):
    """The number of hashes with the same parameters that OpenSSL computes in a second on all processors."""
    def work(end):
        count = 0
        while time.monotonic() < end:
            hashlib.scrypt(b"correct horse battery", salt=bytes(16), n=1 << 17, r=8, p=1, maxmem=1 << 28, dklen=32)
            count += 1
        return count
    start, processors = time.monotonic(), os.cpu_count()
    with concurrent.futures.ThreadPoolExecutor(processors) as pool:
        counts = list(pool.map(work, [start + seconds] * processors))
    return sum(counts) / (time.monotonic() - start)


def median_rate(rows, what, size, server):
    rates = [row["rate"] for row in rows if (row["what"], row["size"], row["server"]) == (what, size, server)]
    return statistics.median(rates) if rates else None


def requests_file(lines, folder):
    """Writes the lines of requests.lua in the format of `server-load --requests`."""
    path = pathlib.Path(folder) / "requests.jsonl"
    with open(path, "w") as file:
        for line in lines:
            method, target, fields, body = line.split("\t", 3)
            request = {"method": method, "path": target, "body": body,
                       "fields": dict(field.split(": ", 1) for field in fields.split("\1") if field)}
            file.write(json.dumps(request) + "\n")
    return path


def server_load(options, arguments):
    command = [str(options.server_load), *arguments, "--json", "--connections", str(options.connections),
               "--seconds", str(max(10, options.seconds))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds + 180)
    if ran.returncode:
        raise Failure(f"{' '.join(command)}: {' '.join((ran.stderr + ran.stdout).split())[-400:]}")
    return json.loads(ran.stdout)


def open_loop(servers, rows, options, folder):
    """Measures latencies with requests at fixed instants: at half the maximum rate of each server, and for all servers at
    half the rate of the slowest one."""
    found = []
    for what in ("read", "write"):
        halves = {server.name: median_rate(rows, what, 300, server.name) / 2 for server in servers}
        plans = [(server, rate) for server in servers for rate in sorted({halves[server.name], min(halves.values())})]
        for server, rate in plans:
            url = f"http://127.0.0.1:{server.port}"
            if what == "write" and server.write_mode == "conditional":
                # Each write has the version of the previous answer as its condition.
                arguments = ["--work", "write", "--accounts", str(options.connections)]
            else:
                arguments = ["--requests", str(requests_file(getattr(server, what + "s")(300), folder))]
            machine, before = Machine(), children_seconds()
            used = server.process.processor_seconds()
            result = server_load(options, [url, *arguments, "--rate", f"{rate:.0f}"])
            mine = children_seconds() - before + server.process.processor_seconds() - used
            latencies = next(iter(result["latencies"].values()))
            found.append({
                "what": what, "server": server.name, "rate": round(rate), "late": result["late"],
                "unsent": result["unsent"], "otherCores": machine.others(mine), **latencies})
            print(f"open loop: {what:5} {server.name:18} {rate:8.0f}/s  {latencies}", flush=True)
    return found
