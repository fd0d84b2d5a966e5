#!/usr/bin/env python3
"""Checks the client in Chromium.

The scenarios, IndexedDB, two tabs, a tab that is closed in the middle, workers, signed grants, and a storage that is
full or forbidden.

    Clients/javascript/test/browser.py --syncd .build/debug/syncd

Needs Python 3.9, Chromium and a built syncd. Prints a line for each check, and exits with 1 at the first failure.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path.insert(0, str(REPOSITORY / "Examples/insomniowl-web"))

from checks.browser import Browser, Failure, Page, say  # noqa: E402

SCENARIOS = REPOSITORY / "Tests/ClientScenarios"
WORKER = """
import { Shop } from "/entitlement-sync.js";
onmessage = async () => {
  try {
    const shop = await Shop.open({ server: location.origin });
    await shop.report({ product: "pack", transaction: "worker" });
    postMessage(await shop.access("random"));
  } catch (error) { postMessage(error.description ?? error.message); }
};
"""
OPEN = """
const { Shop, browserStorage } = await import("/entitlement-sync.js");
const shop = window.shop ??= await Shop.open({ server: "/" });
const count = async () => (await shop.export()).ledger.filter(({ kind }) => kind === "purchase").length;
"""
STEP = """
const { browserStorage } = await import("/entitlement-sync.js");
const { Device } = await import("/test/device.js");
window.devices ??= {};
const server = location.origin;
devices[step.device] ??= new Device({ server, root, storage: browserStorage(step.device), skew });
try { await devices[step.device].take(step); } catch (error) { return error.description ?? error.message; }
return null;
"""


class Server:
    """`syncd serve` with a root key, and a folder with the client at `/`. `scenario` has its options."""

    def __init__(self, syncd, folder, scenario):
        web = folder / "web"
        (web / "test").mkdir(parents=True)
        client = REPOSITORY / "Clients/javascript"
        for name in ("entitlement-sync.js", "test/device.js"):
            shutil.copy(client / name, web / name)
        (web / "index.html").write_text("<!doctype html><html lang=en><title>Check</title><body></body></html>")
        (web / "worker.js").write_text(WORKER)
        root = folder / "root.pem"
        self.root = subprocess.run([syncd, "keys", "root", root, "--create"], check=True, stdout=subprocess.PIPE,
                                   text=True).stdout.strip()
        self.command = [
            syncd, "serve", "--store", f"sqlite:{folder / 'store.sqlite'}", "--web", web,
            "--catalog", SCENARIOS / scenario.get("catalog", "catalog.json"), "--policy",
            scenario.get("policy", "trusted"), "--ownership", scenario.get("ownership", "keepWithFirst"),
            "--password-cost", "10", "--log-level", "error"]
        if scenario.get("signed"):
            self.command += ["--root-key", root, "--grant-days", "7"]
        self.port, self.process = 0, None
        self.start(scenario.get("at"))

    def start(self, at=None):
        clock = ["--at", at] if at else []
        self.process = subprocess.Popen(
            [*map(str, self.command), "--listen", f"127.0.0.1:{self.port}", *clock], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def expect(what, seen, expected):
    if seen != expected:
        raise Failure(f"{what}: {seen}, not {expected}")


def check_scenario(browser, syncd, folder, path):
    """Runs a scenario of Tests/ClientScenarios in a page, with a storage for each device."""
    scenario = json.loads(path.read_text())
    begun = time.time()
    start = datetime.datetime.fromisoformat(scenario["at"].replace("Z", "+00:00")).timestamp() - begun
    server = Server(syncd, folder, scenario)
    page = browser.device(server.url + "/")
    try:
        for number, step in enumerate(scenario["steps"], 1):
            if "javascript" not in step.get("only", ["javascript"]):
                continue
            if step.get("server") == "stop":
                server.stop()
            elif step.get("server") == "start":
                now = datetime.datetime.fromtimestamp(time.time() + start, datetime.timezone.utc)
                server.start(step.get("at", now.isoformat().replace("+00:00", "Z")))
            else:
                problem = page.run(STEP, step=step, root=server.root if scenario.get("signed") else None,
                                   skew=start * 1000)
                if problem:
                    raise Failure(f"{path.name}, step {number}, {json.dumps(step)}: {problem}")
    finally:
        page.close()
        if server.process.poll() is None:
            server.stop()


def check_scenarios(browser, syncd, folder):
    paths = sorted(SCENARIOS.glob("[0-9]*.json"))
    for path in paths:
        if "javascript" in json.loads(path.read_text()).get("only", ["javascript"]):
            check_scenario(browser, syncd, folder / path.stem, path)
    say(f"the {len(paths)} scenarios pass in the browser")


def check_visits(page, server):
    codes = page.run(OPEN + """
        const codes = await shop.signUp("ann", "correct horse");
        await shop.report({ product: "owl", transaction: "o1" });
        return codes.length;
        """)
    expect("recovery codes", codes, 8)
    server.stop()
    page.evaluate("window.shop = undefined")
    seen = page.run(OPEN + """
        const owl = await shop.access("owl");
        const { recorded, failure } = await shop.report({ product: "owl", transaction: "o2" });
        return [owl.granted, recorded, failure.kind, await shop.waiting()];
        """)
    expect("a visit without the server", seen, [True, False, "offline", 1])
    server.start()
    page.revisit(server.url + "/")
    seen = page.run(OPEN + "await shop.refresh(); return [await shop.waiting(), await count()];")
    expect("the visit after it", seen, [0, 2])
    say("IndexedDB keeps the session, the access and the outbox between visits")


def check_tabs(page, other):
    """Two tabs report at the same time, with an expired token."""
    page.run(OPEN + """
        await browserStorage().update((state) => {
          state.session.access_token += "x";
          return state;
        });
        """)
    start = OPEN + """
        const real = window.fetch;
        window.counts = { renewals: 0, posts: [] };
        const counted = async (address, options) => {
          if (address.endsWith("/v1/sessions")) counts.renewals += 1;
          const answer = await real(address, options);
          // Those with the expired token are refused.
          const isRecorded = address.endsWith("/v1/transactions") && answer.ok;
          if (isRecorded) counts.posts.push(...JSON.parse(options.body).evidence);
          return answer;
        };
        const mine = await Shop.open({ server: "/", fetch: counted });
        window.done = Promise.all(Array.from({ length: 10 }, (_, index) =>
          mine.report({ product: "pack", transaction: name + index })));
        """
    for tab, name in ((page, "a"), (other, "b")):
        tab.run(start, name=name)
    finished = "return (await done).every((each) => each.recorded) ? counts : null;"
    first, second = page.run(finished), other.run(finished)
    expect("renewals of the token", first["renewals"] + second["renewals"], 1)
    sent = [item["transaction"] for item in first["posts"] + second["posts"]]
    expect("requests for each report", sorted(sent), sorted(set(sent)))
    expect("reports that were sent", len(sent), 20)
    expect("purchases", page.run(OPEN + "return count();"), 22)
    say("two tabs renew an expired token once, and send 20 reports once")


def check_closed_tab(page, browser, server):
    """A tab is closed while it reports: another tab sends what it has left."""
    tab = Page(browser, page.context, server.url + "/")
    tab.run(OPEN + """
        window.confirmed = 0;
        (async () => {
          for (let index = 0; ; index += 1) {
            await shop.report({ product: "pack", transaction: "closed" + index });
            localStorage.setItem("confirmed", String(window.confirmed += 1));
          }
        })();
        """)
    tab.wait("window.confirmed >= 3")
    browser.call("Target.closeTarget", targetId=tab_id(browser, tab))
    seen = page.run(OPEN + """
        await shop.refresh();
        return [await shop.waiting(), await count() - 22, Number(localStorage.getItem("confirmed"))];
        """)
    if seen[0] != 0 or not seen[2] <= seen[1] <= seen[2] + 1:
        raise Failure(f"waiting, recorded and confirmed: {seen}")
    say(f"a tab that is closed in the middle loses none of its {seen[2]} confirmed reports")


def tab_id(browser, tab):
    """The id of the target that a tab shows, of which the DevTools protocol tells the session only."""
    return tab.call("Target.getTargetInfo")["targetInfo"]["targetId"]


def check_switch(page, other):
    """A log-in in one tab shows in the observer of another."""
    other.run(OPEN + """
        window.seen = [];
        (async () => { for await (const { account } of shop.observe()) window.seen.push(account); })();
        """)
    other.wait("window.seen.at(-1) === 'ann'")
    page.run(OPEN + 'await shop.signUp("bob", "battery staple");')
    other.wait("window.seen.at(-1) === 'bob'")
    page.run(OPEN + "await shop.logOut();")
    other.wait("window.seen.at(-1) === null")
    page.run(OPEN + 'await shop.logIn("ann", "correct horse");')
    other.wait("window.seen.at(-1) === 'ann'")
    say("an observer in one tab follows the log-ins of another")


def check_worker(page):
    access = page.run(OPEN + """
        window.balances = [];
        const stop = new AbortController();
        (async () => {
          // Without a stream of the server, only the worker's message tells of its report.
          const other = await Shop.open({ server: "/", fetch: () => Promise.reject(new TypeError("no link")) });
          for await (const { waiting } of other.observe({ signal: stop.signal })) balances.push(waiting);
        })();
        window.stopObserver = () => stop.abort();
        const worker = new Worker("/worker.js", { type: "module" });
        return new Promise((resolve) => {
          worker.onmessage = ({ data }) => resolve(data);
          worker.postMessage("go");
        });
        """)
    if access.get("granted") is not True:
        raise Failure(f"a worker: {access}")
    page.wait("window.balances.includes(1)", "report of the worker in the page")
    page.wait("window.balances.at(-1) === 0", "delivery by the worker in the page")
    page.evaluate("window.stopObserver()")
    say("a worker shares the storage with the pages, and they see its changes")


def check_grant(page, server):
    body = OPEN + """
        const signed = await Shop.open({ server: "/", trust: { roots: [root] } });
        await signed.refresh();
        const { granted } = await signed.access("owl");
        await browserStorage().update((state) => {
          const [header, payload, signature] = state.home.grant.split(".");
          const changed = { ...JSON.parse(atob(payload)), exp: 99999999999 };
          state.home.grant = [header, btoa(JSON.stringify(changed)).replace(/=+$/, ""), signature].join(".");
          return state;
        });
        try { await signed.access("owl"); return "accepted"; } catch (error) { return [granted, error.kind]; }
        """
    expect("a grant, and a changed one", page.run(body, root=server.root), [True, "noServer"])
    say("a signed grant is verified, and a changed one is refused")


def check_document(browser, server):
    """Runs the example of Docs/Clients.md, with the address, the root and the catalogue of this server."""
    text = (REPOSITORY / "Docs/Clients.md").read_text()
    example = re.search(r"```js\n(.*?)```", text, re.DOTALL)[1]
    imported = 'import { Shop } from "./entitlement-sync.js"'
    for old, new in ((imported, 'const { Shop } = await import("/entitlement-sync.js")'), ("night-owls", "nights"),
                     ("https://purchases.example.com", server.url), ("owls.3months", "month")):
        if old not in example:
            raise Failure(f"the example of Docs/Clients.md has no {old}")
        example = example.replace(old, new)
    example = re.sub(r'roots: \["[^"]+"\]', f'roots: ["{server.root}"]', example)
    page = browser.device(server.url + "/")
    page.run(OPEN + 'await shop.signUp("zoe", "correct horse"); await shop.logOut();')
    seen = page.run("""
        let shown;
        const seen = new Promise((resolve) => { shown = resolve; });
        const show = (access) => shown(access);
        const [name, password] = ["zoe", "correct horse"];
        const run = async () => {""" + example + """
        };
        const overview = await Promise.race([seen, run()]);
        return overview.nights.granted;
        """)
    expect("access of the example", seen, True)
    page.close()
    say("the example of Docs/Clients.md runs")


def check_full_storage(browser, server):
    """A storage that becomes full loses nothing, and works again once there is space."""
    page = browser.device(server.url + "/")
    # Before the first use: the browser remembers for a while how much space is left.
    page.call("Storage.overrideQuotaForOrigin", origin=server.url, quotaSize=1_000_000)
    page.run(OPEN + 'await shop.signUp("eve", "correct horse");')
    body = OPEN + """
        const report = () => shop.report({ product: "pack", transaction, original: "x".repeat(length) });
        const outcome = await report().then(() => "kept", ({ kind, message }) => [kind, message]);
        return [outcome, await shop.waiting()];
        """
    full = "This device has no free space. Free some space, and try again. Nothing was lost."
    expect("a report without space", page.run(body, transaction="full", length=5_000_000), [["full", full], 0])
    expect("a shorter report", page.run(body, transaction="small", length=10), ["kept", 0])
    expect("purchases", page.run(OPEN + "return count();"), 1)
    page.close()
    say("a storage that is full is a typed error, and nothing is lost")


def check_forbidden_storage(page):
    """As in a private window: the storage cannot be opened."""
    seen = page.run("""
        const { Shop, browserStorage } = await import("/entitlement-sync.js");
        const open = () => { throw new DOMException("not here", "SecurityError"); };
        Object.defineProperty(window, "indexedDB", { value: { open }, configurable: true });
        try {
          return await Shop.open({ server: "/", storage: browserStorage() }).then(() => "opened", ({ kind, message }) =>
            [kind, message]);
        } finally {
          delete window.indexedDB;
        }
        """)
    expect("a browser without storage", seen, [
        "storage", "This device cannot read or save your purchases. Restart the app, or ask the app's support."])
    say("a forbidden storage is a typed error")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--syncd", default=os.environ.get("SYNCD", ".build/debug/syncd"), help="the syncd to use")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="the browser")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = Server(options.syncd, folder / "main", {"signed": True})
        browser = None
        try:
            browser = Browser(options.chromium, folder / "profile")
            check_scenarios(browser, options.syncd, folder)
            page = browser.device(server.url + "/")
            check_visits(page, server)
            other = Page(browser, page.context, server.url + "/")
            check_tabs(page, other)
            check_closed_tab(page, browser, server)
            check_worker(page)
            check_switch(page, other)
            check_grant(page, server)
            check_document(browser, server)
            check_full_storage(browser, server)
            check_forbidden_storage(page)
            if browser.faults:
                raise Failure("the browser reports errors: " + "; ".join(browser.faults))
        except Failure as failure:
            sys.exit(f"browser.py: {failure}")
        finally:
            if browser:
                browser.close()
            server.stop()
    print("all checks have passed")


if __name__ == "__main__":
    main()
