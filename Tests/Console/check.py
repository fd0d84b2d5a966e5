#!/usr/bin/env python3
"""Checks the console with a real server and a real browser: a support person's day, mostly by keyboard.

Run .ci/check-console, which fetches axe-core. Needs Python 3.9, Chromium and a built syncd. Prints a line for each
check, and exits with 1 at the first failure. `--screenshots DIR` also takes screenshots. `--long` checks an account
with the largest ledger that a server takes, instead of 1,000 purchases.
"""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "Examples/insomniowl-web"))

import day  # noqa: E402
import large  # noqa: E402
import looks  # noqa: E402
import sessions  # noqa: E402
from checks.browser import Browser, Failure  # noqa: E402
from support import Server  # noqa: E402


def check(options, folder):
    server = Server(options.syncd, folder)
    browser = None
    try:
        day.prepare(server)
        sessions.check_requests(server)
        browser = Browser(options.chromium, folder / "profile")
        axe = looks.Axe(options.axe)
        sessions.check_first_view(browser, server)
        page = browser.device(server.url + "/console")
        looks.check_sign_in(page, server, axe, options.screenshots)
        day.check_day(page, server)
        looks.check_pages(page, server, axe, options.screenshots)
        day.check_hostile(page, server)
        large.check(page, server, options.long)
        sessions.check_lost(page, server)
        sessions.check_read_only(browser, server)
        sessions.check_revoked(browser, server)
        if browser.faults:
            raise Failure("the browser reports errors: " + "; ".join(browser.faults))
    finally:
        if browser:
            browser.close()
        if server.process.poll() is None:
            server.stop()
    if " error " in server.complaints():
        raise Failure("the server's log: " + server.complaints())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", default=os.environ.get("SYNCD", ".build/debug/syncd"), help="the syncd to check")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser")
                        or shutil.which("google-chrome"), help="the browser")
    parser.add_argument("--axe", type=pathlib.Path, required=True, help="the file axe.min.js of axe-core")
    parser.add_argument("--screenshots", type=pathlib.Path, help="a folder for screenshots")
    parser.add_argument("--long", action="store_true", help="check an account with the largest ledger")
    parser.add_argument("--limit", type=int, default=3600, help="the time limit for all checks, in seconds")
    options = parser.parse_args()
    if not options.chromium:
        sys.exit("check.py: Chromium is not installed; install it, or name it with --chromium")
    if not os.access(options.syncd, os.X_OK):
        sys.exit(f"check.py: {options.syncd} is not an executable file; build it, or name it with --syncd")

    def give_up(number, _):
        # Like any failure, this ends the server and the browser.
        raise Failure(f"not done within {options.limit} s" if number == signal.SIGALRM else "terminated")

    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, give_up)
    signal.alarm(options.limit)
    if options.screenshots:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(options, pathlib.Path(folder))
        except Failure as failure:
            sys.exit(f"check.py: {failure}")
    print("all checks have passed")


if __name__ == "__main__":
    main()
