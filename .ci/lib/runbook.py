"""Reads the commands of a section of Docs/Operations.md, and runs a `syncd serve` for the scripts that try them."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "Docs/Operations.md"
PASSWORD = "correct horse battery"


class Failure(Exception):
    pass


def blocks(heading, language):
    """The fenced blocks of a language in a section, which ends at the next heading of any level."""
    found, block, indent, isInside, isKnown = [], None, 0, False, False
    for line in PAGE.read_text().splitlines():
        fence = re.fullmatch(r"( *)```(.*)", line)
        if fence and block is None:
            indent, block = len(fence[1]), [fence[2].split(" ")[0]]
        elif fence:
            if isInside and block[0] == language:
                found.append("\n".join(block[1:]) + "\n")
            block = None
        elif block is not None:
            block.append(line[indent:])
        elif line.startswith("#"):
            isInside = line.lstrip("#").strip() == heading
            isKnown = isKnown or isInside
    if not isKnown:
        raise Failure(f"{PAGE.name} has no section \"{heading}\"")
    if not found:
        raise Failure(f"{PAGE.name}: the section \"{heading}\" has no block of {language}")
    return found


def commands(heading):
    """The commands of a section."""
    return "".join(blocks(heading, "sh"))


# The time after which a check gives up. It only guards against hanging: a busy machine may need long.
PATIENCE = 300


def wait_until(what, condition, seconds=PATIENCE):
    """Waits until `condition` returns a true value, and returns it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(syncd, folder):
    """The environment of commands: the program, no settings and no sessions of the user."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    if not (programs / "syncd").exists():
        (programs / "syncd").symlink_to(syncd)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SYNCD_", "XDG_"))}
    return kept | {
        "PATH": f"{programs}:{os.environ['PATH']}", "XDG_STATE_HOME": str(folder / "state"),
        "SYNCD_PASSWORD": PASSWORD, "SYNCD_PASSWORD_COST": "10", "SWIFT_BACKTRACE": "enable=no",
    }


class Server:
    """A `syncd serve` on a port that stays the same when it is started again."""

    def __init__(self, environment, folder, arguments):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        self.environment = environment
        self.arguments = ["syncd", "serve", "--listen", f"127.0.0.1:{self.port}"] + arguments
        self.process = None

    def start(self):
        if self.process:
            return
        with open(self.log, "ab") as log:
            # The environment's PATH finds the program.
            self.process = subprocess.Popen(
                ["/usr/bin/env"] + self.arguments, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log)
        if not self.process.stdout.readline().startswith(b"listening on "):
            self.process.wait()
            self.process = None
            raise Failure(f"the server did not start: {self.log.read_text().splitlines()[-1:]}")

    def stop(self, number=signal.SIGTERM):
        """Ends the server, and returns its exit status; 0 if it does not run."""
        if not self.process:
            return 0
        process, self.process = self.process, None
        process.send_signal(number)
        status = process.wait(PATIENCE)
        process.stdout.close()
        return status
