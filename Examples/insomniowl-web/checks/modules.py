"""Checks single modules of the page."""

from .browser import Failure, say
from .server import HERE
from .story import log_in, sign_up

FIRST_LOAD = 60_000


def check_client():
    """The folder has a copy of the client, because the server follows no link out of it."""
    client = HERE.parents[1] / "Clients/javascript/entitlement-sync.js"
    if client.read_bytes() != (HERE / client.name).read_bytes():
        raise Failure(f"{client.name} differs from {client}: copy it")


def loaded(page):
    """The bytes of JavaScript that a page has loaded, uncompressed."""
    page.wait("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    return page.evaluate("""performance.getEntriesByType("resource").filter(({ name }) => name.endsWith(".js"))
        .reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0)""")


def check_first_load(browser, server):
    """A first visit loads what the log-in needs only."""
    page = browser.device(server.url + "/")
    page.view("login")
    first = loaded(page)
    if not 20_000 < first <= FIRST_LOAD:
        raise Failure(f"a first visit loads {first} bytes of JavaScript, more than {FIRST_LOAD}")
    sign_up(page, server, "lyra", "a harp of stars")
    say(f"a first visit loads {first} bytes of JavaScript, uncompressed; after the log-in all {loaded(page)} are loaded")
    page.close()
    check_missing_module(browser, server)


def check_missing_module(browser, server):
    """Without the module for members the page says what to do, and the next visit has the account."""
    page = browser.device(server.url + "/")
    page.view("login")
    page.call("Network.enable")
    page.call("Network.setBypassServiceWorker", bypass=True)
    page.call("Network.setBlockedURLs", urls=["*/members.js"])
    log_in(page, "lyra", "a harp of stars")
    page.sees("#login .error", "A part of this page is missing. Check the connection, then reload the page.")
    page.call("Network.setBlockedURLs", urls=[])
    page.revisit(server.url + "/")
    page.view("shop")
    page.close()
    say("if the network fails after the first screen, the page says what to do")
