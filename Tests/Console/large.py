"""An account with very many purchases."""

import json
import time
import urllib.parse
import urllib.request

from checks.browser import TIMEOUT, Failure, say
from day import ago, sale
from support import is_quiet, search


def report(server, session, count):
    """Reports purchases as an app does, in requests of 100."""
    for first in range(0, count, 100):
        server.report(session, [sale("owls" if number % 2 else "3months", f"c-{number}", 20 + number % 700)
                                for number in range(first, min(first + 100, count))])


def store(server, session, count):
    """Puts a ledger of many purchases in the place of the account's, because requests of 100 would take an hour."""
    server.report(session, [sale("owl", "first", 5)])
    local = ["--account", "collector", "--local", f"sqlite:{server.folder}/device.sqlite",
             "--catalog", str(server.folder / "catalog.json")]
    (server.folder / "history.json").write_text(json.dumps([
        {"productID": "owls" if number % 2 else "3months", "transactionID": f"c-{number}",
         "purchaseDate": ago(20 + number % 700)} for number in range(count)]))
    server.tool("import", str(server.folder / "history.json"), "--format", "history", "--create", *local)
    server.tool("export", "--format", "ledger", "--output", str(server.folder / "ledger"), *local)
    keys = server.ask("GET", "/v1/kv?prefix=accounts/collector/", token=server.tokens["admin"])[2]["items"]
    key = next(each["key"] for each in keys if each["key"].endswith("/ledger"))
    request = urllib.request.Request(
        f"{server.url}/v1/kv/{urllib.parse.quote(key)}?if=any", (server.folder / "ledger").read_bytes(),
        {"Authorization": "Bearer " + server.tokens["admin"], "Content-Type": "application/octet-stream"}, method="PUT")
    urllib.request.urlopen(request, timeout=TIMEOUT).close()
    return (server.folder / "ledger").stat().st_size


def check(page, server, is_long):
    session = server.sign_up("collector")
    # The largest ledger that the server takes has 4 MiB.
    count = 25_000 if is_long else 1_000
    begun = time.monotonic()
    (store if is_long else report)(server, session, count)
    written = time.monotonic() - begun
    while not server.ask("GET", "/v1/customers?query=c-77", token=server.tokens["read"])[2]["customers"]:
        if time.monotonic() - begun > TIMEOUT:
            raise Failure("the projection does not have the purchases")
        time.sleep(0.2)
    begun = time.monotonic()
    search(page, "c-77")
    # The page of the customer before is shown until this one is loaded.
    page.wait("document.querySelector('h1')?.innerText.includes('collector')", "the customer")
    page.wait("document.querySelector('.timeline .mark')", "the timeline")
    is_quiet(page)
    shown = time.monotonic() - begun
    marks = page.evaluate("document.querySelectorAll('.timeline .mark').length")
    if not 0 < marks < 1500:
        raise Failure(f"the timeline has {marks} marks")
    rows = page.evaluate("document.querySelectorAll('[aria-labelledby=purchases] tbody tr').length")
    if rows != 25:
        raise Failure(f"{rows} purchases are shown at first")
    page.press("[data-key=more-purchases]")
    page.wait("document.querySelectorAll('[aria-labelledby=purchases] tbody tr').length === 125", "more purchases")
    begun = time.monotonic()
    page.press(".tools button:nth-child(2)")
    zoomed = time.monotonic() - begun
    facts = server.ask("GET", "/v1/customers/collector/purchases?limit=1", token=server.tokens["read"])[2]["count"]
    if facts < count:
        raise Failure(f"the server has {facts} of {count} purchases")
    say(f"{facts:,} purchases: written in {written:.1f} s, the page is complete after {shown:.2f} s with {marks} marks,"
        f" a zoom takes {zoomed * 1000:.0f} ms")
