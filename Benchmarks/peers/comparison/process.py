"""A server process and a persistent connection to it."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import time


class Failure(Exception):
    """A failure, described in one line."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A process that is started by a command, stopped by its process id, and logs to a file."""

    def __init__(self, command, folder, environment=None):
        self.log = pathlib.Path(folder) / "log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.command = command
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env={**os.environ, **(environment or {})})

    def wait_for(self, is_ready, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            result = is_ready()
            if result:
                return result
            time.sleep(0.05)
        raise Failure(f"{self.command[0]} did not start: {self.complaints()}")

    def complaints(self):
        return " ".join(self.log.read_text(errors="replace").split())[-500:]

    def processor_seconds(self):
        """The processor time of the process and its children so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(fields[index]) for index in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """The resident memory of the process in bytes."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                # The id of its process group is its process id.
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


class Client:
    """A client of one server that sends one request at a time."""

    def __init__(self, port):
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method, path, body=None, expected=(200, 201, 204), **fields):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            fields.setdefault("Content_Type", "application/json")
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        try:
            self.connection.request(method, path, body, fields)
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise Failure(f"{method} {path} at port {self.port}: {error!r}") from None
        if answer.status not in expected:
            raise Failure(f"{method} {path} at port {self.port}: {answer.status} {content[:300]!r}")
        return answer, content

    def json(self, method, path, body=None, **fields):
        return json.loads(self.ask(method, path, body, **fields)[1])


def answers(port, path):
    """Returns true if a server answers on the port."""
    try:
        Client(port).ask("GET", path, expected=(200, 404))
        return True
    except Failure:
        return False
