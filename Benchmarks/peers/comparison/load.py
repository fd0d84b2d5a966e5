"""Drives a server with wrk."""

import os
import pathlib
import subprocess
import time

from .process import Failure

SCRIPT = pathlib.Path(__file__).with_name("requests.lua")


class Figures:
    """The results of one run of wrk. Times are in milliseconds."""

    def __init__(self, words, cores):
        numbers = [int(word) for word in words]
        self.count, self.microseconds = numbers[0], numbers[1]
        self.errors = dict(zip(("connect", "read", "write", "status", "timeout"), numbers[2:7]))
        self.median, self.p99, self.p999 = (number / 1_000 for number in numbers[7:10])
        self.rate = self.count / (self.microseconds / 1_000_000)
        # The number of processors that the server kept busy.
        self.cores = cores


def drive(server, lines, folder, seconds, connections, mode="plain", threads=2):
    """Runs one round: wrk sends the requests of `lines` in turn over `connections`.

    Any answer other than 2xx and 3xx, and any request without an answer, is a failure, because a server that refuses
    quickly is not fast.
    """
    requests = pathlib.Path(folder) / "requests"
    with open(requests, "w") as file:
        count = 0
        for line in lines:
            file.write(line + "\n")
            count += 1
    threads = min(threads, count)
    command = [
        "wrk", f"--threads={threads}", f"--connections={max(connections, threads)}", f"--duration={seconds}s",
        "--timeout=30s", f"--script={SCRIPT}", f"http://127.0.0.1:{server.port}", "--", str(requests), mode]
    used, start = server.process.processor_seconds(), time.monotonic()
    # In the caller's folder, because the threads of wrk read the file when they start.
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 60,
        env={**os.environ, "WRK_THREADS": str(threads)})
    cores = (server.process.processor_seconds() - used) / (time.monotonic() - start)
    results = [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    if ran.returncode or not results:
        raise Failure(f"wrk at {server.name}: {' '.join((ran.stdout + ran.stderr).split())[-400:]}")
    figures = Figures(results[0], cores)
    if any(figures.errors.values()) or not figures.count:
        raise Failure(f"{server.name}: {figures.errors} of {figures.count} requests; {server.process.complaints()}")
    return figures
