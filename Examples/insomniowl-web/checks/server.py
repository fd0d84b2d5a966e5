"""Runs `syncd` as a server and as a command-line tool."""

import json
import os
import pathlib
import subprocess
import urllib.error
import urllib.request

from .browser import TIMEOUT, Failure

HERE = pathlib.Path(__file__).resolve().parents[1]
CATALOG = HERE / "catalog.json"
PREFIX = "com.back40.InsomniOwl."


class Server:
    """`syncd serve` with an SQLite store. It can be restarted at the same address."""

    def __init__(self, syncd, folder, catalog=CATALOG):
        self.syncd, self.folder, self.catalog, self.port = syncd, folder, catalog, 0
        self.folder.mkdir(exist_ok=True)
        self.store = "sqlite:" + str(folder / "server.sqlite")
        self.start()

    def start(self):
        self.log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            [self.syncd, "serve", "--store", self.store, "--web", str(HERE), "--catalog", str(self.catalog),
             "--listen", f"127.0.0.1:{self.port}", "--password-cost", "10", "--log-level", "warning"],
            stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on "):
            raise Failure("the server did not start: " + self.complaints())
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        try:
            status = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"the server did not stop within {TIMEOUT} s")
        finally:
            self.process.stdout.close()
            self.log.close()
        if status != 0:
            raise Failure(f"the server exited with status {status}: {self.complaints()}")

    def complaints(self):
        """The last 2,000 characters of the server's log."""
        return (self.folder / "server.log").read_text(errors="replace").strip()[-2000:]

    def post(self, path, body, token=None):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST")
        if token:
            request.add_header("Authorization", "Bearer " + token)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")


class Tool:
    """Runs `syncd` commands, without the settings of the environment."""

    def __init__(self, syncd, folder):
        self.syncd, self.folder = syncd, folder

    def __call__(self, *arguments, catalog=CATALOG):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_")}
        done = subprocess.run(
            [self.syncd, *map(str, arguments), "--catalog", str(catalog)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=clean, timeout=TIMEOUT)
        if done.returncode:
            raise Failure(f"syncd {' '.join(map(str, arguments))}: {done.stderr.decode().strip()}")
        return done.stdout
