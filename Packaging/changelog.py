#!/usr/bin/env python3
"""Prints CHANGELOG.md as a Debian changelog.

    Packaging/changelog.py --version DEBIAN_VERSION --time SECONDS

The section "Unreleased", or else the first one, describes the version. Later sections keep their versions and dates.
"""

import argparse
import datetime
import email.utils
import pathlib
import re
import sys
import textwrap

MAINTAINER = "EntitlementSync maintainers <maintainers@entitlementsync.invalid>"
HEADING = re.compile(r"## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$")


def sections(text):
    """The sections of the changelog: the heading, and a list of (title, items)."""
    found = []
    for line in text.splitlines():
        heading = HEADING.match(line)
        if heading:
            found.append((heading, []))
        elif not found:
            continue
        elif line.startswith("### "):
            found[-1][1].append((line[4:], []))
        elif line.startswith("- "):
            if not found[-1][1]:
                found[-1][1].append((None, []))
            found[-1][1][-1][1].append(line[2:].strip())
        elif line.startswith("  ") and found[-1][1] and found[-1][1][-1][1]:
            found[-1][1][-1][1][-1] += " " + line.strip()
    return found


def wrapped(text, first, following):
    return textwrap.fill(
        text, 78, initial_indent=first, subsequent_indent=following, break_long_words=False, break_on_hyphens=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True, help="the version of the Debian package")
    parser.add_argument("--time", type=int, required=True, help="the time of the version, seconds since 1970")
    options = parser.parse_args()
    path = pathlib.Path(__file__).resolve().parent.parent / "CHANGELOG.md"
    found = sections(path.read_text(encoding="utf-8"))
    if not found:
        sys.exit("changelog: CHANGELOG.md has no section such as \"## [0.1.0] - 2026-01-31\"")
    for index, (heading, groups) in enumerate(found):
        version, time = options.version, options.time
        if index:
            version = f"{heading['version']}-1"
            if not heading["date"]:
                sys.exit(f"changelog: the section {heading['version']} of CHANGELOG.md has no date")
            time = datetime.datetime.fromisoformat(heading["date"] + "T00:00:00+00:00").timestamp()
        print(f"syncd ({version}) unstable; urgency=medium\n")
        for title, items in groups:
            print(wrapped(title or "Changes", "  * ", "    ") + ":")
            for item in items:
                print(wrapped(item, "    - ", "      "))
        print(f"\n -- {MAINTAINER}  {email.utils.formatdate(time)}\n")


if __name__ == "__main__":
    main()
