#!/usr/bin/env python3
"""Tries this page end to end: a real server, a real browser, several devices.

Needs Python 3.9, a Chromium and a built syncd, and nothing else:

    swift build --product syncd
    Examples/insomniowl-web/check.py --syncd .build/debug/syncd

Prints a line for each thing that was seen, and how long a purchase takes to show up on another device. Exits with 1 at
the first thing that is not as it should be. `--screenshots DIR` takes pictures besides.
"""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile

# The folder is served as it is: nothing is left in it.
sys.dont_write_bytecode = True

from checks import looks, modules, story
from checks.browser import Browser, Failure
from checks.server import CATALOG, Server, Tool


def check(options, folder):
    tool = Tool(options.syncd, folder)
    server = Server(options.syncd, folder)
    browser = None
    try:
        browser = Browser(options.chromium, folder / "profile")
        first, second = (browser.device(server.url + "/") for _ in range(2))
        modules.check_bytes(first, tool, folder)
        modules.check_parser(first)
        modules.check_keys(first)
        codes = story.check_log_in(first, second, server)
        story.check_buying(first, second)
        story.check_both_at_once(first, second)
        story.check_strangers(first, server)
        looks.check_widths(first, server)
        looks.check_contrast(first, server)
        modules.check_refresh(first)
        story.check_device(first, server)
        story.check_outage(first, second, server)
        story.check_lost_answer(first, server)
        story.check_return(first, "luna", "a good night's rest")
        story.check_end_of_session(first, second)
        story.check_recovery(first, server, codes[0])
        story.check_password(first)
        story.check_tool(first, tool, server, folder)
        story.check_guessing(browser, server)
        story.check_erasure(first, second, server)
        for page in (first, second):
            page.close()
        first, second = (browser.device(server.url + "/") for _ in range(2))
        story.check_units(first, second, server)
        first.press('#tabs a[href="#/shop"]')
        looks.measure(first, second, options.rounds)
        local = Server(options.syncd, folder / "local", CATALOG.parents[1] / "insomniowl.json")
        try:
            story.check_local_units(browser, local)
        finally:
            local.stop()
        if options.screenshots:
            looks.take_pictures(browser, server, options.screenshots)
        if browser.faults:
            raise Failure("the browser complains: " + "; ".join(browser.faults))
    finally:
        if browser:
            browser.close()
        if server.process.poll() is None:
            server.process.terminate()
            server.process.wait()
        elif sys.exc_info()[0]:
            print(f"the server has ended by itself: {server.complaints()}", file=sys.stderr)
    if " error " in server.complaints():
        raise Failure("the server's log: " + server.complaints())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", default=os.environ.get("SYNCD", ".build/debug/syncd"), help="the program to try")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser")
                        or shutil.which("google-chrome"), help="the browser")
    parser.add_argument("--rounds", type=int, default=50, help="how often the time is taken")
    parser.add_argument("--limit", type=int, default=600, help="how long all of it may take, in seconds")
    parser.add_argument("--screenshots", type=pathlib.Path, help="a folder for pictures")
    options = parser.parse_args()
    if not options.chromium:
        sys.exit("check.py: there is no Chromium here; install one, or name it with --chromium")
    if not os.access(options.syncd, os.X_OK):
        sys.exit(f"check.py: {options.syncd} is not there; build it, or name it with --syncd")

    def give_up(number, _):
        # As any failure: the server and the browser are ended.
        raise Failure(f"no end within {options.limit} s" if number == signal.SIGALRM else "told to end")

    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, give_up)
    signal.alarm(options.limit)
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(options, pathlib.Path(folder))
        except Failure as failure:
            sys.exit(f"check.py: {failure}")
    print("all as it should be")


if __name__ == "__main__":
    main()
