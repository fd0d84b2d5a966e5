"""Starts PostgreSQL in a folder, for scripts that need a server of their own."""

import glob
import os
import pathlib
import pwd
import signal
import subprocess

from runbook import Failure, free_port, wait_until


class Database:
    """A PostgreSQL server in a folder, run by a user that is not root."""

    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2]), default=None)

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.process = None
        # PostgreSQL refuses to run as root.
        self.user = pwd.getpwnam("postgres").pw_uid if os.geteuid() == 0 else None
        folder.mkdir(mode=0o700)
        if self.user is not None:
            os.chown(folder, self.user, -1)

    def run(self, *arguments):
        result = subprocess.run(
            [f"{self.programs}/{arguments[0]}", *map(str, arguments[1:])], user=self.user, cwd="/",
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"{arguments[0]}: {result.stderr.strip()}")
        return result.stdout.strip()

    def create(self):
        self.run("initdb", "--auth=trust", "--username=syncd", "--locale=C.UTF-8", "-D", self.folder / "data")

    def copy(self, primary):
        self.run(
            "pg_basebackup", "-D", self.folder / "data", "-R", "-c", "fast", "-d",
            f"host=127.0.0.1 port={primary.port} user=syncd application_name=standby")

    def start(self, *settings):
        options = [f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", *settings]
        with open(self.folder.parent / f"{self.folder.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                [f"{self.programs}/postgres", "-D", self.folder / "data"] + [f"--{option}" for option in options],
                user=self.user, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(f"PostgreSQL in {self.folder} is ready", self.is_ready)

    def is_ready(self):
        if self.process.poll() is not None:
            raise Failure(f"PostgreSQL in {self.folder} ended with {self.process.returncode}")
        try:
            return self.ask("SELECT 1") == "1"
        except Failure:
            return False

    def ask(self, statement, database="postgres"):
        return self.run("psql", "-XAtq", "-h", "127.0.0.1", "-p", self.port, "-U", "syncd", "-d", database, "-c", statement)

    def promote(self):
        self.run("pg_ctl", "promote", "-D", self.folder / "data")

    def kill(self):
        """Kills all processes of the server at once."""
        children = []
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/children"):
            children += [int(text) for text in pathlib.Path(path).read_text().split()]
        self.process.kill()
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None

    def stop(self):
        if self.process is None:
            return
        process, self.process = self.process, None
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
