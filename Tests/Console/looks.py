"""Runs axe-core on each page, checks the widths, and takes screenshots."""

import json
import time

from checks.browser import Failure, say
from support import CATALOG, is_quiet, sign_in

LOOKS = [(width, height, scheme) for width, height in ((1280, 860), (360, 740)) for scheme in ("light", "dark")]


class Axe:
    def __init__(self, path):
        self.source = path.read_text()

    def check(self, page, name):
        """Fails with what axe-core finds on the page."""
        if not page.evaluate("typeof axe === 'object'"):
            page.evaluate(self.source + ";undefined")
        found = page.evaluate("""axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
            JSON.stringify(violations.map(({ id, help, nodes }) => [id, help, nodes.slice(0, 3).map((it) =>
              it.html.slice(0, 200) + " " + it.failureSummary)])))""")
        if json.loads(found):
            raise Failure(f"axe-core on {name}: {json.dumps(json.loads(found), indent=1)}")


def take(page, folder, name):
    if folder:
        time.sleep(0.15)
        page.picture(folder / f"{name}.png")


def each_look(page, axe, folder, name):
    """Checks the page in light and dark, on a desktop and a phone."""
    for width, height, scheme in LOOKS:
        page.look(width, height, scheme)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide > 0:
            raise Failure(f"{name} is {wide} pixels wider than {width}")
        axe.check(page, f"{name}, {scheme}, {width} pixels")
        take(page, folder, f"{name}-{'phone' if width < 700 else 'desktop'}-{scheme}")
    page.look(1280, 860, "light")


def check_sign_in(page, server, axe, folder):
    page.wait("document.querySelector('#token')", "the sign-in")
    each_look(page, axe, folder, "sign-in")
    page.type("#token", "est_0000000000000000_wrong")
    page.evaluate("document.querySelector('form').requestSubmit()")
    page.sees("main", "does not know this token")
    each_look(page, axe, folder, "sign-in-wrong")
    page.evaluate("document.querySelector('#token').focus(); document.querySelector('#token').value = ''")
    sign_in(page, server.tokens["support"])
    say("a wrong token is refused with words, and a right one signs in")


def go(page, server, address, ready):
    page.evaluate(f"location.hash = {address!r}")
    page.wait(ready, address)
    is_quiet(page)


def check_pages(page, server, axe, folder):
    states = 0

    def look(name):
        nonlocal states
        states += 1
        each_look(page, axe, folder, name)

    go(page, server, "#/", "document.querySelector('h1')?.innerText === 'Find a customer'")
    look("start")
    page.type("#query", "gue")
    page.wait("document.querySelectorAll('#found:not([hidden]) li').length > 5", "results")
    look("search")
    page.type("#query", "no such customer")
    page.wait("document.querySelector('.note:not([hidden])')?.innerText.includes('No customer found')", "no results")
    look("search-empty")
    page.type("#query", "")
    page.evaluate("document.querySelector('#query').blur()")
    go(page, server, "#/customer/minerva", "document.querySelector('#summary')")
    page.wait("document.querySelector('.timeline .mark')", "the timeline")
    look("customer")
    page.evaluate("document.querySelector('.list summary').click()")
    page.wait("document.querySelector('.reasons')", "the reasons")
    page.evaluate("document.querySelector('.timeline .mark').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    page.wait("!document.querySelector('.facts').hidden", "the facts")
    page.evaluate("document.querySelector('.legend summary').click()")
    look("customer-facts")
    page.evaluate("document.querySelector('#purchases').scrollIntoView()")
    look("customer-purchases")
    page.press("[data-key=grant]")
    page.wait("document.querySelector('dialog[open]')", "the dialog")
    look("grant")
    page.type("#act-reason", "ticket 4711: an outage of two days")
    page.evaluate("document.querySelector('dialog form').requestSubmit()")
    page.wait("document.querySelector('dialog .preview').innerText.includes('Nothing is done yet')", "the preview")
    look("grant-preview")
    page.evaluate("document.querySelector('dialog .plain').click()")
    go(page, server, "#/customer/guest-11", "document.querySelector('.summary')?.innerText.includes('erased')")
    look("customer-erased")
    go(page, server, "#/overview", "document.querySelectorAll('figure').length > 3")
    page.wait("document.querySelector('[aria-labelledby=hooks]').innerText.includes('Send again')", "dead letters")
    look("overview")
    page.evaluate("document.querySelector('#hooks').scrollIntoView()")
    look("overview-webhooks")
    server.hook.works = True
    page.press("[data-key=again-crm]")
    page.sees("#toast", "will be sent again")
    page.wait("!document.querySelector('[aria-labelledby=hooks]').innerText.includes('Send again')", "the delivery", 60)
    go(page, server, "#/catalog", "document.querySelector('#changed')")
    look("catalog")
    changed = {**CATALOG, "entitlements": [each for each in CATALOG["entitlements"] if each["id"] != "night-owl"]}
    page.type("#changed", json.dumps(changed, indent=1))
    page.evaluate("document.querySelector('form.stack').requestSubmit()")
    page.wait("document.querySelector('main').innerText.includes('customers checked.')", "the check of the catalogue")
    outcome = page.text("#outcome")
    if "lose access" not in outcome or "keep all access" not in outcome or outcome.startswith("0 keep"):
        raise Failure(f"the check of a catalogue says {outcome!r}")
    page.evaluate("document.querySelector('#outcome').scrollIntoView({ block: 'center' })")
    look("catalog-check")
    page.type("#changed", '{"products": [\n  {"id": "owl", "type": "bird"}]}')
    page.evaluate("document.querySelector('form.stack').requestSubmit()")
    page.wait("document.querySelector('main [role=alert]')?.innerText.includes('products[0].type')", "the mistake")
    look("catalog-mistake")
    go(page, server, "#/nothing", "document.querySelector('h1')?.innerText.includes('no such page')")
    look("missing")
    say(f"axe-core finds nothing on {states} pages and states, in light and dark, at 360 and 1280 pixels")
