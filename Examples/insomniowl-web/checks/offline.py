"""Checks the service worker, and the page without a connection."""

import hashlib
import re
import signal
import time

from .account import expect
from .browser import TIMEOUT, Failure, say
from .history import rows
from .server import HERE, PREFIX
from .story import buy, sign_up

WORKER = HERE / "service-worker.js"
VERSION = re.compile(r'^const version = "(\w+)";$', re.MULTILINE)


def page_files():
    """The names of the files that the page loads."""
    return ["index.html"] + sorted(
        path.name for path in HERE.iterdir() if path.suffix in (".js", ".css", ".svg") and path != WORKER)


def current_version():
    """A digest of those files, and of the worker without its version."""
    digest = hashlib.sha256(VERSION.sub("", WORKER.read_text()).encode())
    for name in page_files():
        digest.update(name.encode() + b"\0" + (HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def update_version():
    WORKER.write_text(VERSION.sub(f'const version = "{current_version()}";', WORKER.read_text()))


def check_version():
    """The worker lists the files of the page, and its version is their digest."""
    listed = re.findall(r'"([^"]+)"', re.search(r"const files = \[(.*?)\];", WORKER.read_text(), re.DOTALL)[1])
    expect("files in service-worker.js", listed, ["./"] + page_files()[1:])
    version = VERSION.search(WORKER.read_text())[1]
    if version != current_version():
        raise Failure(f"service-worker.js has version {version}, its files {current_version()}; "
                      "run check.py --update-version")
    return version


def check_offline(browser, server):
    version = check_version()
    page = browser.device(server.url + "/")
    sign_up(page, server, "rigel", "far away and bright")
    buy(page, "3monthsOfRandom")
    page.wait("document.querySelectorAll('#history .purchase').length === 1")
    buy(page, "RandomOwls")
    page.sees("#toast", "5 owls added, 5 left.")
    page.wait("document.querySelectorAll('#history .purchase').length === 2")
    standing, history = page.text("#standing"), rows(page)
    page.wait("navigator.serviceWorker.controller?.state === 'activated'", "active service worker")
    check_cache(page, version)
    server.stop()
    page.revisit(server.url + "/#/shop")
    page.view("shop")
    page.sees("#offline", "Offline: the server does not answer. You see your purchases as of ")
    expect("the shop without the server", page.text("#standing").replace(" at your last visit", ""), standing)
    page.press('#tabs a[href="#/purchases"]')
    page.view("purchases")
    expect("the history without the server", rows(page), history)
    page.press('#tabs a[href="#/owls"]')
    page.wait("document.querySelector('#owl svg')", "owl")
    seed = page.evaluate("document.querySelector('#owl').dataset.seed")
    page.press("#another")
    page.wait(f"document.querySelector('#owl').dataset.seed !== '{seed}'", "second owl")
    say("a new visit without the server shows the last known purchases, and the subscription still gives owls")
    page.press('#tabs a[href="#/shop"]')
    buy(page, "NightOwl")
    page.sees("#toast", "The server does not answer")
    server.start()
    page.wait("document.querySelector('#offline').hidden", "end of the offline notice")
    page.wait("!document.querySelector('#standing').innerText.includes('last visit')", "current entitlements")
    expect("the shop after the outage", page.text("#standing"), standing)
    buy(page, "NightOwl")
    page.sees(f'[data-product="{PREFIX}NightOwl"]', "Owned")
    say("once the server is back, the page is up to date by itself, and sells again")
    check_hanging_server(page, server, standing)
    check_slow_module(page, server)
    check_new_version(page, server, version)
    check_logged_out(page, server)
    page.close()


def check_cache(page, version):
    """The cache holds the files of the page, and nothing else."""
    expect("caches", page.run("return caches.keys();"), ["insomniowl-" + version])
    held = page.run("""
        const cache = await caches.open((await caches.keys())[0]);
        return (await cache.keys()).map(({ url }) => new URL(url).pathname).sort();
        """)
    expect("cached files", held, sorted("/" + name for name in [""] + page_files()[1:]))


def check_hanging_server(page, server, standing):
    """A server that accepts connections but does not answer: files and data come from the last visit."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        page.revisit(server.url + "/#/shop")
        page.view("shop")
        page.sees("#offline", "The server has not answered yet. You see your purchases as of ")
        page.sees("#standing", "at your last visit")
    finally:
        server.process.send_signal(signal.SIGCONT)
    page.wait("document.querySelector('#offline').hidden", "end of the notice")
    page.wait("!document.querySelector('#standing').innerText.includes('last visit')", "current entitlements")
    expect("the shop after the pause", page.text("#standing"), standing.replace("0 of 9", "1 of 9"))
    say("while the server hangs, the page opens with the last known purchases")


def check_slow_module(page, server):
    """A page from the network waits for its modules: the cache may hold another version."""
    end = time.monotonic() + TIMEOUT
    while True:
        if time.monotonic() > end:
            raise Failure("the page always came from the cache")
        page.revisit(server.url + "/#/shop")
        page.view("shop")
        # On a busy machine the page may have come from the cache, because the network took three seconds.
        if page.evaluate("performance.getEntriesByType('navigation')[0].responseStart") < 3000:
            break
    server.process.send_signal(signal.SIGSTOP)
    try:
        page.run("""
            window.slowModule = fetch("/owl.js").then(({ status }) => status);
            const pause = new Promise((resolve) => { setTimeout(resolve, 4000, "waiting"); });
            window.slowModuleState = await Promise.race([slowModule, pause]);
            """)
    finally:
        server.process.send_signal(signal.SIGCONT)
    expect("a module while the server hangs", page.evaluate("slowModuleState"), "waiting")
    expect("the module afterwards", page.evaluate("slowModule"), 200)
    say("a page from the network gets no module from the cache")


def check_new_version(page, server, version):
    """A new worker deletes the caches of other versions, and no other caches."""
    page.run("""
        await caches.open("insomniowl-0");
        await caches.open("another");
        await (await navigator.serviceWorker.ready).unregister();
        """)
    page.revisit(server.url + "/#/shop")
    page.view("shop")
    page.run("""
        while ((await caches.keys()).includes("insomniowl-0")) await new Promise((resolve) => setTimeout(resolve, 20));
        """)
    expect("caches", sorted(page.run("return caches.keys();")), ["another", "insomniowl-" + version])
    say("a new version of the files replaces the old one")


def check_logged_out(page, server):
    """Logging out deletes the data of the account from the browser; the page still opens without the server."""
    kept = page.evaluate("JSON.parse(localStorage.getItem('insomniowl.lastKnown')).purchases.length")
    expect("purchases kept for visits without a connection", kept, 3)
    page.press('#tabs a[href="#/account"]')
    page.press("#logout")
    page.view("login")
    expect("data kept after logging out", page.evaluate("localStorage.getItem('insomniowl.lastKnown')"), None)
    server.stop()
    page.revisit(server.url + "/")
    page.view("login")
    server.start()
    say("logging out deletes the purchases that the browser has kept")
