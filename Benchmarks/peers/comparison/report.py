"""Tables in Markdown."""

import datetime
import pathlib
import platform
import statistics
import textwrap

from .measuring import SCRYPT, median_rate


def machine():
    information = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.split(":", 1)[1].strip() for line in information.splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(), "processors": len(names),
        "kernel": platform.release(), "date": datetime.date.today().isoformat(), "python": platform.python_version(),
    }


def table(rows):
    head, *body = [[str(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])


def number(value):
    return "–" if value is None else f"{value:,.0f}"


def round_ratios(figures, what, size, left, right):
    """The ratios of `left` to `right`, round by round, so that a slow phase of the machine affects both."""
    def by_round(server):
        return {row["round"]: row["rate"] for row in figures
                if (row["what"], row["size"], row["server"]) == (what, size, server)}
    lefts, rights = by_round(left), by_round(right)
    return [lefts[number] / rights[number] for number in lefts if rights.get(number)]


def ratio(values, show_range=False):
    if not values:
        return "–"
    middle = statistics.median(values)
    unit, text = (" %", lambda value: f"{value * 100:.0f}") if middle < 1 else ("", lambda value: f"{value:.2f}")
    if not show_range or len(values) == 1:
        return text(middle) + unit
    return f"{text(middle)}{unit} ({text(min(values))} to {text(max(values))})"


def names(figures, what):
    return list(dict.fromkeys(row["server"] for row in figures if row["what"] == what))


def size_name(size):
    return f"{size:,} bytes"


def rates(figures, what, sizes):
    rows = [[f"{what}, requests/s"] + [size_name(size) for size in sizes]
            + [f"÷ PocketBase, {size_name(size)}" for size in sizes] + ["processors that the server used"]]
    for name in names(figures, what):
        values = [median_rate(figures, what, size, name) for size in sizes]
        cores = statistics.median(
            row["serverCores"] for row in figures if (row["what"], row["server"]) == (what, name))
        rows.append([name] + [number(value) for value in values]
                    + [ratio(round_ratios(figures, what, size, name, "PocketBase")) for size in sizes]
                    + [f"{cores:.2f}"])
    return table(rows)


def ratios(figures, sizes):
    def row(text, what, left, right):
        return [text] + [ratio(round_ratios(figures, what, size, left, right), True) for size in sizes]
    rows = [["ratio"] + [size_name(size) for size in sizes],
            row("authorised read: syncd ÷ PocketBase", "read", "syncd", "PocketBase"),
            row("authorised read: syncd ÷ bare route", "read", "syncd", "bare route"),
            row("durable write: syncd ÷ PocketBase with its default (NORMAL)", "write", "syncd", "PocketBase"),
            row("durable write: syncd ÷ PocketBase with FULL", "write", "syncd", "PocketBase, FULL")]
    if "syncd, no sync" in names(figures, "write"):
        rows.append(row("write without sync: syncd ÷ PocketBase (NORMAL)", "write", "syncd, no sync", "PocketBase"))
    rows.append(["log-in: syncd ÷ scrypt alone"]
                + [ratio(round_ratios(figures, "login", 0, "syncd, scrypt 2^17", SCRYPT), True)]
                + [""] * (len(sizes) - 1))
    return table(rows)


def latencies(open_loop):
    rows = [["latency, open loop", "requests/s", "median", "99 %", "99.9 %", "maximum", "answers over 1 ms"]]
    for row in open_loop:
        times = [f"{row[name] / 1_000:.2f} ms" for name in (
            "medianMicroseconds", "p99Microseconds", "p999Microseconds", "mostMicroseconds")]
        rows.append([f"{row['what']}, {row['server']}", number(row["rate"]), *times, number(row["late"])])
    return table(rows)


def markdown(facts, figures, open_loop):
    sizes = sorted({row["size"] for row in figures if row["what"] == "read"})
    info = facts["machine"]
    others = [row["otherCores"] for row in figures if "otherCores" in row]
    login = [["log-in, requests/s", ""]] + [
        [name, f"{median_rate(figures, 'login', 0, name):.2f}"] for name in names(figures, "login")]
    servers = "\n".join(
        f"- **{server['name']}**{' ' if server['version'] else ''}{server['version']}: {server['durability']}"
        for server in facts["servers"])
    return f"""Machine: {info['processor']}, {info['processors']} processors, Linux {info['kernel']}. Load: \
{facts['accounts']:,} accounts (Kinto: 40), {facts['connections']} connections, wrk with 2 threads on the same \
processors; {facts['rounds']} rounds of {facts['seconds']} s. Figures are medians. Ratios are medians of the ratios of \
all rounds, with their range. Other processes kept {statistics.median(others):.2f} processors busy (median), \
{max(others):.2f} at most.

{ratios(figures, sizes)}

{rates(figures, 'read', sizes)}

{rates(figures, 'write', sizes)}

{table(login)}

{latencies(open_loop)}

The servers and their durability:

{servers}

PocketBase opens its databases with `synchronous({facts['pocketbasePragma']})` by default.
"""


def page(tables, picture):
    """The page: the tables with the method of measurement."""
    shown = f"![Requests a second of syncd and other servers]({picture})\n\n" if picture else ""
    return filled(f"""# Comparison with other servers

This page compares `syncd serve` with PocketBase, Kinto and a *bare route*, a minimal server whose rate is the upper \
bound. The following command measures them and writes the page:

    make peers

It installs PocketBase and Kinto from PyPI into a temporary folder and starts each server on 127.0.0.1. It creates the \
same accounts and documents on each, and measures them with wrk, one after the other, in alternating rounds.

{shown}{tables}
## Method

- **Read**: an account reads its own document. syncd: `GET /v1/kv/…` with an access token. PocketBase: a record \
that only its owner may view, with a user's token. Kinto: a record in the caller's own bucket, with basic \
authentication (each password is hashed once and then cached).
- **Write**: an account overwrites its document. syncd: a conditional `PUT` with the version of the previous answer \
(`If-Match`). PocketBase: an unconditional `PATCH`. Kinto: an unconditional `PUT`.
- **Bare route**: HummingbirdCore, the HTTP library of syncd, sends the same number of bytes and does nothing else.
- **Durability**: PocketBase commits to a write-ahead log without syncing it (`synchronous = NORMAL`). syncd \
answers after the sync (`FULL`). Each is therefore measured both ways: PocketBase also with a hook that sets `FULL` \
(verified afterwards), and syncd also with an fsync that does nothing (libeatmydata). `memory:` and Kinto are not durable.
- **Log-in**: syncd hashes with scrypt and 128 MiB (OWASP's parameters), PocketBase with bcrypt at cost 10. The costs \
of these hashes are not comparable, so syncd is compared with scrypt alone.
- **Open loop**: `server-load` with `--rate`. Latency counts from the time at which the request was due. Each server is \
measured at half of its maximum rate, and the faster server also at the rate of the slower one.
- Each server runs with its defaults and logs to a file (Kinto: warnings only). wrk shares the processors with the \
server. Any unsuccessful answer ends the run.
""")


def filled(text):
    """Wraps prose at 118 columns and leaves everything else unchanged."""
    def lines(line):
        if line.startswith(("|", "    ", "!", "#")) or len(line) <= 118:
            return line
        return textwrap.fill(
            line, 118, subsequent_indent="  " if line.startswith("- ") else "", break_long_words=False,
            break_on_hyphens=False)
    return "\n".join(lines(line) for line in text.split("\n"))
