#!/usr/bin/env python3
"""Writes the man pages of syncd: syncd.1, and one page for each subcommand, such as syncd-store-backup.1.

    Packaging/man.py --syncd FILE --version VERSION --date YYYY-MM-DD --output DIR

The text is that of the program: `--experimental-dump-help` lists the commands with their options, and the help of each
command has its usage line.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import textwrap


def escaped(text):
    """Text for troff: no escapes, and no line that troff would read as a request."""
    text = text.replace("\\", "\\(rs").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    text = text.replace("`", "\\(ga").replace("…", "...").replace("'", "\\(aq")
    return re.sub(r"(?m)^\.", r"\\&.", text)


def paragraphs(text):
    """A discussion: paragraphs, and indented lines as examples."""
    lines = []
    for index, part in enumerate(text.strip("\n").split("\n\n")):
        if index:
            lines.append(".PP")
        isExample = False
        for line in part.split("\n"):
            if line.startswith("  ") != isExample:
                isExample = not isExample
                lines += [".PP", ".RS 4", ".EX"] if isExample else [".EE", ".RE", ".PP"]
            if isExample:
                lines.append(escaped(textwrap.dedent(line) if len(line) - len(line.lstrip()) <= 2 else line[2:]))
            else:
                lines.append(escaped(line.strip()))
        if isExample:
            lines += [".EE", ".RE"]
    return lines


def flag(name):
    """An option as it is typed."""
    return ("--" if name["kind"] == "long" else "-") + name["name"]


def item(option):
    """The entry of an option or argument."""
    if option["kind"] == "positional":
        head = f"\\fI{escaped(option['valueName'])}\\fR"
    else:
        names = sorted(option["names"], key=lambda name: len(name["name"]))
        value = f" \\fI{escaped(option['valueName'])}\\fR" if option["kind"] == "option" else ""
        head = ", ".join(f"\\fB{escaped(flag(name))}\\fR" for name in names) + value
    text = option.get("abstract", "")
    if option.get("defaultValue") and "default" not in text:
        text += f" (default: {option['defaultValue']})"
    return [".TP", head, escaped(text) or "\\&"]


def shown(elements):
    return [element for element in elements or [] if element.get("shouldDisplay", True)]


class Pages:
    def __init__(self, options):
        self.options = options
        dump = json.loads(self.run("--experimental-dump-help"))
        self.root = dump["command"]

    def run(self, *arguments):
        return subprocess.run(
            [self.options.syncd, *arguments], capture_output=True, text=True, check=True,
            env=os.environ | {"COLUMNS": "100000"}).stdout

    def subcommands(self, command):
        return [sub for sub in shown(command.get("subcommands")) if sub["commandName"] != "help"]

    def write(self, command, path=()):
        path = (*path, command["commandName"])
        page = "-".join(path)
        file = self.options.output / f"{page}.1"
        file.write_text("\n".join(self.page(command, path)) + "\n", encoding="utf-8")
        for sub in self.subcommands(command):
            self.write(sub, path)

    def page(self, command, path):
        name = escaped("-".join(path))
        lines = [
            ".\\\" Generated from the help of the program by Packaging/man.py.",
            f".TH {name.upper()} 1 {self.options.date} \"syncd {self.options.version}\" \"User Commands\"",
            ".nh", ".ad l", ".SH NAME", f"{name} \\- {escaped(command['abstract']).rstrip('.')}", ".SH SYNOPSIS",
        ]
        usage = re.search(r"^USAGE: (.*?)\n\n", self.run("help", *path[1:]) + "\n\n", re.MULTILINE | re.DOTALL)
        for index, line in enumerate(usage[1].split("\n")):
            words = escaped(line.strip())
            lines += ([".br"] if index else []) + [
                re.sub(r"^(%s)\b" % re.escape(escaped(" ".join(path))), r"\\fB\1\\fR", words)]
        if command.get("discussion"):
            lines += [".SH DESCRIPTION"] + paragraphs(command["discussion"])
        arguments = shown(command.get("arguments"))
        positional = [argument for argument in arguments if argument["kind"] == "positional"]
        options = [argument for argument in arguments if argument["kind"] != "positional"]
        titles = dict.fromkeys([None, *(option.get("sectionTitle") for option in options)])
        for title, part in [("Arguments", positional)] + [
            (title, [option for option in options if option.get("sectionTitle") == title]) for title in titles
        ]:
            if part:
                lines.append(f".SH {escaped(title or 'Options').upper()}")
                lines += [line for option in part for line in item(option)]
        if self.subcommands(command):
            lines.append(".SH COMMANDS")
            for sub in self.subcommands(command):
                lines += [
                    ".TP", f"\\fB{name}\\-{escaped(sub['commandName'])}\\fR(1)", escaped(sub["abstract"])]
        related = [path[:-1]] if len(path) > 1 else []
        related += [(*path, sub["commandName"]) for sub in self.subcommands(command)]
        lines += [".SH SEE ALSO"] + [
            f"\\fB{escaped('-'.join(other))}\\fR(1)" + ("," if other != related[-1] else "") for other in related]
        return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--version", required=True, help="its version")
    parser.add_argument("--date", required=True, help="the date of the version")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the folder to write")
    options = parser.parse_args()
    options.syncd = options.syncd.resolve()
    pages = Pages(options)
    pages.write(pages.root)


if __name__ == "__main__":
    main()
