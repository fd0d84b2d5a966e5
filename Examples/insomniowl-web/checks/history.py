"""Checks the purchase history."""

import datetime
import json

from .account import expect
from .browser import say
from .server import PREFIX
from .story import ENTITLEMENTS, buy, sign_up

PASSWORD = "the brightest of them"


def date_text(instant):
    """A date as the page shows it: British English, UTC."""
    return f"{instant.day} {instant:%B %Y}".replace(" ", "\u00a0")


def parsed(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def rows(page):
    """The rows of the history: [name, content, state]."""
    return page.evaluate("""[...document.querySelectorAll("#history .purchase")].map((row) =>
        [".name", ".content", ".state"].map((part) => row.querySelector(part)?.textContent ?? null))""")


def row(product):
    """The expression for the row of a product."""
    return f"[...document.querySelectorAll('#history .purchase')].find((it) => it.innerText.includes('{product}'))"


def state_is(page, product, state):
    page.wait(f"{row(product)}.querySelector('.state').textContent === {json.dumps(state)}", f"{product}: {state}")


def check_history(browser, tool, server, folder):
    page = browser.device(server.url + "/")
    sign_up(page, server, "vega", PASSWORD)
    page.press('#tabs a[href="#/purchases"]')
    page.sees("#history-empty", "You have not bought anything yet.")
    page.press('#tabs a[href="#/shop"]')
    for count, product in enumerate(("3monthsOfRandom", "6monthsOfRandom", "RandomOwls", "NightOwl"), 1):
        buy(page, product)
        page.wait(f"document.querySelectorAll('#history .purchase').length === {count}", f"{count} purchases")
    page.press('#tabs a[href="#/purchases"]')
    page.view("purchases")
    entitlements = page.run(ENTITLEMENTS)
    periods = entitlements["subscriptions"][0]["periods"]
    first, second = (" – ".join(date_text(parsed(period[end])) for end in ("start", "end")) for period in periods)
    expect("the history", rows(page), [
        ["Night Owl", "One owl to keep", "Owned"], ["Random Owls", "5 owls", "Added"],
        ["6 Months of Random Owls", second, "Starts later"], ["3 Months of Random Owls", first, "Active"]])
    bought = page.evaluate("document.querySelector('#history time').textContent")
    today = parsed(entitlements["at"])
    if bought not in [date_text(today - datetime.timedelta(days=days)) for days in (0, 1)]:
        expect("the date of a purchase", bought, date_text(today))
    say(f"the history lists product, date, period or units, and state: {first} is active")
    check_refund(page, tool, server, folder)
    check_refusal(browser, page, server)
    page.look(390, 844, "light")
    inside = page.evaluate("""[...document.querySelectorAll("#history .purchase *")].every((it) => {
        const { left, right } = it.getBoundingClientRect();
        return left >= 0 && right <= 390;
    })""")
    expect("the history fits into 390 pixels", inside, True)
    page.close()


def check_refund(page, tool, server, folder):
    """A refund and its reversal appear in the history without a reload."""
    where = ["--local", f"file:{folder / 'vega'}", "--remote", server.store]
    tool("account", "login", "vega", *where)
    tool("sync", *where)
    transaction = page.evaluate(f"{row('Night Owl')}.dataset.transaction")
    tool("record", "refund", transaction, "--date", "2026-06-01", *where)
    tool("sync", *where)
    state_is(page, "Night Owl", "Refunded on " + date_text(datetime.date(2026, 6, 1)))
    tool("record", "reinstatement", transaction, *where)
    tool("sync", *where)
    state_is(page, "Night Owl", "Owned")
    say("a refund appears in the history with its date, and disappears when it is reversed")


def check_refusal(browser, page, server):
    """A transaction that two accounts record counts for the first, and the history of the second says so."""
    other = browser.device(server.url + "/")
    sign_up(other, server, "altair", PASSWORD)
    record = """
        const { Shop } = await import("/entitlement-sync.js");
        const shop = await Shop.open({ server: "/" });
        await shop.report({ product: prefix + "CouchOwl", transaction: "SHARED" }).catch(({ code }) => code);
    """
    page.run(record, prefix=PREFIX)
    state_is(page, "Couch Owl", "Owned")
    other.run(record, prefix=PREFIX)
    other.press('#tabs a[href="#/purchases"]')
    other.wait(f"{row('Couch Owl')}.querySelector('.state').textContent.startsWith('Not accepted: another account')",
               "refused purchase")
    state_is(page, "Couch Owl", "Owned")
    other.close()
    say("a transaction that another account has recorded first is shown as not accepted")
