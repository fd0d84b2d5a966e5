"""An account with very many purchases."""

import time

from checks.browser import Failure, say
from day import sale
from support import is_quiet, search


def check(page, server, count):
    """`count` purchases, each of which is two facts."""
    session = server.sign_up("collector")
    begun = time.monotonic()
    for first in range(0, count, 100):
        server.report(session, [sale("owls" if number % 2 else "3months", f"c-{number}", 20 + number % 700)
                                for number in range(first, min(first + 100, count))])
    written = time.monotonic() - begun
    begun = time.monotonic()
    search(page, "c-77")
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
    say(f"{2 * count:,} facts: written in {written:.1f} s, the page is complete after {shown:.2f} s with {marks} marks, "
        f"a zoom takes {zoomed * 1000:.0f} ms")
