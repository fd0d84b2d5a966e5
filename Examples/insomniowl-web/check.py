#!/usr/bin/env python3
"""Checks this page end to end with a real server, a real browser, and several devices.

Needs Python 3.9, Chromium and a built syncd:

    swift build --product syncd
    Examples/insomniowl-web/check.py --syncd .build/debug/syncd

Prints a line for each check, and the time until another device shows a purchase. Exits with 1 at the first failure.
`--screenshots DIR` also takes screenshots. `--update-version` only writes the version of the page's files into
service-worker.js; run it after each change to them.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

# The server serves this folder, so Python must not write its cache here.
sys.dont_write_bytecode = True

from checks import account, history, looks, modules, offline, story
from checks.browser import Browser, Failure
from checks.server import CATALOG, Server, Tool


def check(options, folder):
    modules.check_client()
    offline.check_version()
    tool = Tool(options.syncd, folder)
    server = Server(options.syncd, folder)
    browser = None
    try:
        browser = Browser(options.chromium, folder / "profile")
        modules.check_first_load(browser, server)
        first, second = (browser.device(server.url + "/") for _ in range(2))
        codes = story.check_log_in(first, second, server)
        story.check_buying(first, second)
        story.check_both_at_once(first, second)
        looks.check_widths(first, server)
        looks.check_contrast(first, server)
        story.check_device(first, server)
        story.check_outage(first, second, server)
        story.check_lost_answer(first, server)
        story.check_return(first, "luna", "a good night's rest")
        story.check_end_of_session(first, second)
        story.check_recovery(first, server, codes)
        story.check_password(first)
        story.check_tool(first, tool, server, folder)
        account.check_codes(browser, server)
        account.check_fields(browser, server)
        history.check_history(browser, tool, server, folder)
        offline.check_offline(browser, server)
        story.check_guessing(browser, server)
        story.check_erasure(first, second, server)
        for page in (first, second):
            page.close()
        first, second = (browser.device(server.url + "/") for _ in range(2))
        story.check_units(first, second, server)
        first.press('#tabs a[href="#/shop"]')
        looks.measure(first, second, options.rounds)
        tutorial = json.loads((CATALOG.parents[1] / "insomniowl.json").read_bytes())
        tutorial["products"].reverse()
        (folder / "reversed.json").write_text(json.dumps(tutorial))
        local = Server(options.syncd, folder / "local", folder / "reversed.json")
        try:
            story.check_local_units(browser, local)
        finally:
            local.stop()
        if options.screenshots:
            looks.take_pictures(browser, server, options.screenshots)
        if browser.faults:
            raise Failure("the browser reports errors: " + "; ".join(browser.faults))
    finally:
        if browser:
            browser.close()
        if server.process.poll() is None:
            server.process.terminate()
            server.process.wait()
        elif sys.exc_info()[0]:
            print(f"the server ended unexpectedly: {server.complaints()}", file=sys.stderr)
    if " error " in server.complaints():
        raise Failure("the server's log: " + server.complaints())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", default=os.environ.get("SYNCD", ".build/debug/syncd"), help="the syncd to check")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser")
                        or shutil.which("google-chrome"), help="the browser")
    parser.add_argument("--rounds", type=int, default=50, help="the number of latency measurements")
    parser.add_argument("--limit", type=int, default=3600, help="the time limit for all checks, in seconds")
    parser.add_argument("--screenshots", type=pathlib.Path, help="a folder for screenshots")
    parser.add_argument("--update-version", action="store_true",
                        help="write the version of the page's files into service-worker.js, and do nothing else")
    options = parser.parse_args()
    if options.update_version:
        offline.update_version()
        return
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
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(options, pathlib.Path(folder))
        except Failure as failure:
            sys.exit(f"check.py: {failure}")
    print("all checks have passed")


if __name__ == "__main__":
    main()
