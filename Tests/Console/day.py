"""A support person's day, by keyboard, and what hostile customers can write."""

import datetime

from checks.browser import Failure, say
from support import focused, is_quiet, key, search, tab_to, write

NOW = datetime.datetime.now(datetime.timezone.utc)
RTL = "\u05d0\u05d1\u05d2\u05d3\u05d4"
HTML = "<img src=x onerror=alert(1)>"
LONG = "x" * 255


def ago(days):
    return (NOW - datetime.timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def sale(product, transaction, days, **more):
    return {"kind": "reported", "product": product, "transaction": transaction, "date": ago(days), **more}


def prepare(server):
    """Customers as a shop has them after a year."""
    session = server.sign_up("minerva")
    server.sign_up("luna")
    server.report(session, [
        sale("3months", "GPA.3345-1", 400), sale("3months", "GPA.3345-2", 310), sale("6months", "GPA.3345-3", 200),
        sale("owl", "GPA.3345-4", 150)])
    server.act("minerva", "refunds", {"store": "reported", "transaction": "GPA.3345-3", "date": ago(120)})
    server.act("minerva", "grants", {
        "product": "month", "store": "app-store", "transaction": "2000000123", "date": ago(70), "introductory": True,
        "expires": ago(63)})
    server.act("minerva", "grants", {
        "product": "month", "store": "app-store", "transaction": "2000000124", "date": ago(63),
        "original": "2000000123", "expires": ago(33)})
    for number in range(12):
        session = server.sign_up(f"guest-{number:02}")
        server.report(session, [sale("3months", f"g-{number}", number * 9), sale("owl", f"o-{number}", number * 4)])
        if number % 3 == 0:
            server.act(f"guest-{number:02}", "refunds", {"store": "reported", "transaction": f"o-{number}"})
    server.act("guest-11", "grants", {"group": "random", "for": "P3D"})


def preview(page, reason):
    """Fills in the reason, and previews the act."""
    tab_to(page, "Reason")
    write(page, reason)
    key(page, "Enter")
    page.wait("document.querySelector('dialog .preview').innerText.includes('Nothing is done yet')", "the preview")
    return page.text("dialog .preview")


def confirm(page, verb):
    """Confirms an act, whose button has the focus after the preview."""
    if focused(page) != verb:
        raise Failure(f"the focus is on {focused(page)!r} after the preview, not on {verb!r}")
    key(page, "Enter")
    page.wait("!document.querySelector('dialog')", f"the end of the dialog after {verb}")
    page.sees("#toast", "done, entry")


def open_act(page, words):
    tab_to(page, words)
    key(page, "Enter")
    page.wait("document.querySelector('dialog[open]')", f"the dialog {words}")


def check_day(page, server):
    """Finds a customer by a transaction, and does every act without the mouse."""
    search(page, "GPA.3345-3")
    is_quiet(page)
    summary = page.text("#summary")
    if "night-owl" not in summary or "No access to" not in summary or "random-owls" not in summary:
        raise Failure(f"the summary is {summary!r}")
    tab_to(page, "random-owls")
    key(page, "Enter")
    page.wait("document.querySelector('details[open] .why').innerText.includes('refund')", "the reason of a denial")
    say("a customer is found by transaction, and the page says why access is denied")

    # Marks of the timeline.
    page.evaluate("document.querySelector('h1').focus()")
    tab_to(page, "the time around now")
    key(page, "Tab")
    labels = set()
    for _ in range(12):
        labels.add(focused(page))
        key(page, "ArrowLeft")
    for words in ("Three months, paid", "refunded", "trial"):
        if not any(words in label for label in labels):
            raise Failure(f"no mark of the timeline is {words!r}: {labels}")
    key(page, "Enter")
    page.wait("document.querySelector('.facts').innerText.includes('2000000123')", "the facts of the first mark")
    say("each mark of the timeline has the focus by arrow keys, and opens its facts")

    page.evaluate("document.querySelector('h1').focus()")
    open_act(page, "Grant access")
    if "club" != page.evaluate("document.querySelector('#act-what').value"):
        raise Failure("the grant does not propose access that is denied")
    for _ in range(3):
        if page.evaluate("document.querySelector('#act-what').value") != "random-owls":
            key(page, "ArrowDown")
    text = preview(page, "ticket 4711: an outage of two days")
    if "Before" not in text or "until" not in text:
        raise Failure(f"the preview of a grant is {text!r}")
    if server.access("minerva")["random-owls"]["granted"]:
        raise Failure("a preview has granted access")
    confirm(page, "Grant")
    page.sees("#summary", "Has")
    page.wait("document.querySelector('#summary').innerText.includes('random-owls until')", "the new access")
    if not server.access("minerva")["random-owls"]["granted"]:
        raise Failure("the grant gave nothing")
    say("a month is previewed and granted")

    page.wait("document.querySelector('[data-key=\"row-transfer-reported/GPA.3345-4\"]')", "the purchase")
    is_quiet(page)
    page.evaluate("document.querySelector('h1').focus()")
    tab_to(page, "Transfer Night Owl")
    key(page, "Enter")
    page.wait("document.querySelector('dialog[open]')", "the dialog of a transfer")
    write(page, "luna")
    text = preview(page, "ticket 4714: bought on another account")
    if "luna" not in text or "belongs to another account" not in text:
        raise Failure(f"the preview of a transfer is {text!r}")
    confirm(page, "Transfer")
    if not server.access("luna")["night-owl"]["granted"]:
        raise Failure("the transfer gave nothing")
    say("a purchase is transferred, with the access of both accounts in the preview")


    search(page, "luna")
    page.sees("h1", "luna")
    is_quiet(page)
    page.evaluate("document.querySelector('#purchases').scrollIntoView(); document.querySelector('h1').focus()")
    tab_to(page, "Refund Night Owl")
    key(page, "Enter")
    page.wait("document.querySelector('dialog[open]')", "the dialog of a refund")
    if "refunded" not in preview(page, "ticket 4712"):
        raise Failure("the preview of a refund does not say so")
    confirm(page, "Refund")
    page.wait("document.querySelector('#summary').innerText.includes('refunded')", "the refund")
    page.evaluate("document.querySelector('h1').focus()")
    tab_to(page, "Reinstate Night Owl")
    key(page, "Enter")
    page.wait("document.querySelector('dialog[open]')", "the dialog of a reinstatement")
    preview(page, "ticket 4713: the refund was a mistake")
    confirm(page, "Reinstate")
    say("a purchase is refunded and reinstated")

    search(page, "minerva")
    page.sees("h1", "minerva")

    is_quiet(page)
    page.evaluate("document.querySelector('h1').focus()")
    open_act(page, "Recovery code")
    preview(page, "ticket 4715: identity checked by phone")
    key(page, "Enter")
    page.wait("document.querySelector('dialog .code')", "the code")
    key(page, "Enter")
    page.wait("!document.querySelector('dialog')", "the end of the dialog")
    open_act(page, "End all sessions")
    preview(page, "ticket 4716: phone lost")
    confirm(page, "End")
    page.sees("main", "No device is signed in")
    say("a recovery code is created, and sessions are ended")

    # A purchase that is made elsewhere.
    session = server.ask("POST", "/v1/sessions", {"grant_type": "password", "username": "luna",
                                                  "password": "correct horse battery"})[2]["access_token"]
    search(page, "luna")
    is_quiet(page)
    server.report(session, [sale("6months", "live-1", 1)])
    page.wait("document.querySelector('#summary').innerText.includes('random-owls until')", "the other purchase")
    page.wait("document.querySelector('main').innerText.includes('live-1')", "the purchase in the list")
    say("a purchase made elsewhere appears without a reload")

    search(page, "guest-11")
    is_quiet(page)
    page.evaluate("document.querySelector('h1').focus()")
    open_act(page, "Erase")
    tab_to(page, "Reason")
    write(page, "ticket 4717")
    key(page, "Enter")
    page.sees("dialog", "Confirm that the customer has asked for it")
    key(page, " ")
    key(page, "Tab")
    key(page, "Enter")
    page.wait("document.querySelector('dialog .preview').innerText.includes('Nothing is done yet')", "the preview")
    confirm(page, "Erase for good")
    page.sees("main", "This account was erased")
    if server.customer("guest-11")[0] != 410:
        raise Failure("the account was not erased")
    say("an account is erased, after a confirmation of its own")


def check_hostile(page, server):
    """Names and reasons with HTML, other directions and every byte are shown as text."""
    fields = {"html": HTML, "rtl": RTL + " " + RTL, "long": LONG, "quote": "\"'`{{7*7}}", "space": "a  b"}
    sessions = {}
    for name in fields.values():
        try:
            sessions[name] = server.sign_up(name)
        except Failure:
            # The server refuses some names itself.
            continue
        for transaction in (f"{name[:40]}-<b>bold</b>", "\u202e" + name[:20] + "reversed"):
            try:
                server.report(sessions[name], [sale("owl", transaction, 3)])
            except Failure:
                continue
    if HTML not in sessions and len(sessions) < 3:
        raise Failure(f"the server accepts only {list(sessions)}")
    for reason in (HTML, "</textarea><script>alert(1)</script>", RTL, "r" * 1000):
        for name in list(sessions)[:2]:
            server.act(name, "grants", {"group": "random", "for": "P1D", "reason": reason})
    for name in sessions:
        page.open(server.url + "/console#/")
        page.evaluate(f"location.hash = '#/customer/' + encodeURIComponent({name!r})")
        page.wait(f"document.querySelector('h1')?.innerText === {name!r}.replace(/\\s+/g, ' ')"
                  f" || document.querySelector('h1')?.textContent === {name!r}", f"the name {name[:30]!r}")
        page.wait("document.querySelector('#summary')", "the customer")
        is_quiet(page)
        strangers = page.evaluate("document.querySelectorAll('main img, main script, main b, main textarea').length")
        if strangers:
            raise Failure(f"{name[:30]!r} has become {strangers} elements")
        for width in (360, 1280):
            page.look(width, 800, "light")
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                raise Failure(f"the page of {name[:30]!r} is {wide} pixels wider than {width}")
    if page.browser.dialogs:
        raise Failure(f"a script of a customer ran: {page.browser.dialogs}")
    page.look(1280, 860, "light")
    say(f"{len(sessions)} hostile names, their transactions and reasons are text, and fit 360 pixels")
