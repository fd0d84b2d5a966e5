"""A server with the console, and a page that is used by its keyboard."""

import base64
import http.server
import json
import os
import pathlib
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
import uuid

from checks.browser import TIMEOUT, Failure

CATALOG = {
    "products": [
        {"id": "owl", "type": "nonConsumable", "names": {"en": "Night Owl"}},
        {"id": "3months", "type": "nonRenewing", "group": "random", "duration": "P3M", "names": {"en": "Three months"}},
        {"id": "6months", "type": "nonRenewing", "group": "random", "duration": "P6M", "names": {"en": "Six months"}},
        {"id": "month", "type": "autoRenewable", "group": "club", "duration": "P1M", "level": 1,
         "introductory": {"mode": "free", "duration": "P1W"}, "names": {"en": "Club, monthly"}},
        {"id": "owls", "type": "consumable", "units": 5, "names": {"en": "Five owls"}}],
    "entitlements": [
        {"id": "random-owls", "grantedBy": ["group:random", "units:owls"]},
        {"id": "club", "grantedBy": ["group:club"]},
        {"id": "night-owl", "grantedBy": ["product:owl"]}],
    "policy": {"consumables": "shared"}}


class Hook(http.server.ThreadingHTTPServer):
    """The receiver of a webhook, which wants no further attempts until `works` is true."""

    works = False

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200 if self.server.works else 410)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Hook.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Server:
    """`syncd serve --console` with an SQLite store."""

    def __init__(self, syncd, folder):
        self.syncd, self.folder, self.port = syncd, folder, 0
        self.store = f"sqlite:{folder}/store.sqlite"
        (folder / "catalog.json").write_text(json.dumps(CATALOG))
        self.hook = Hook()
        hooks = self.folder / "webhooks.json"
        hooks.write_text(json.dumps([{
            "name": "crm", "url": f"http://127.0.0.1:{self.hook.server_port}/", "allowPrivateAddresses": True,
            "secrets": ["whsec_" + base64.b64encode(bytes(32)).decode()], "events": ["purchase.refunded"]}]))
        hooks.chmod(0o600)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_")}
        self.start()
        self.tokens = {scope: self.token(scope, scope) for scope in ("read", "support", "admin")}

    def start(self):
        self.log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            [self.syncd, "serve", "--store", self.store, "--catalog", str(self.folder / "catalog.json"),
             "--listen", f"127.0.0.1:{self.port}", "--projection", "--console",
             "--webhooks", str(self.folder / "webhooks.json"), "--password-cost", "10",
             "--log-level", "warning", "--limit", "sign-ups=none", "--limit", "account-writes=none",
             "--limit", "account-reads=none"],
            stdout=subprocess.PIPE, stderr=self.log, env=self.environment)
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on "):
            raise Failure("the server did not start: " + self.complaints())
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        self.process.wait(TIMEOUT)
        self.process.stdout.close()
        self.log.close()

    def complaints(self):
        return (self.folder / "server.log").read_text(errors="replace").strip()[-2000:]

    def tool(self, *arguments):
        done = subprocess.run([self.syncd, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment, timeout=TIMEOUT)
        if done.returncode:
            raise Failure(f"syncd {' '.join(arguments)}: {done.stderr.decode().strip()}")
        return done.stdout.decode()

    def token(self, name, scope):
        return self.tool("token", "create", name, "--scope", scope, "--store", self.store).strip()

    def revoke(self, name):
        self.tool("token", "revoke", name, "--store", self.store)

    def ask(self, method, path, body=None, token=None, fields=None):
        """The status, the fields and the JSON of an answer."""
        request = urllib.request.Request(
            self.url + path, None if body is None else json.dumps(body).encode(), fields or {}, method=method)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if token:
            request.add_header("Authorization", "Bearer " + token)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                text = answer.read()
                return answer.status, answer.headers, json.loads(text) if text.startswith(b"{") else text
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, error.headers, json.loads(text) if text.startswith(b"{") else text

    def sign_up(self, name):
        status, _, answer = self.ask("POST", "/v1/accounts", {"name": name, "password": "correct horse battery"})
        if status != 201:
            raise Failure(f"no account {name!r}: {answer}")
        return answer["access_token"]

    def report(self, session, items):
        status, _, answer = self.ask("POST", "/v1/transactions", {"evidence": items}, session)
        if status != 200:
            raise Failure(f"a report was refused: {answer}")

    def act(self, account, part, body, method="POST"):
        """An act of support, as another program does it."""
        path = f"/v1/customers/{urllib.parse.quote(account, safe='')}/{part}"
        status, _, answer = self.ask(
            method, path, {"reason": "prepared", **body}, self.tokens["support"],
            {"Idempotency-Key": str(uuid.uuid4())})
        if status != 200:
            raise Failure(f"{part} of {account!r}: {answer}")
        return answer

    def customer(self, account):
        return self.ask("GET", f"/v1/customers/{urllib.parse.quote(account, safe='')}", token=self.tokens["read"])

    def access(self, account):
        return self.customer(account)[2]["entitlements"]["access"]


KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""),
        "ArrowRight": (39, ""), "ArrowLeft": (37, ""), " ": (32, " "), "/": (191, "/"), "+": (187, "+"),
        "Home": (36, ""), "End": (35, "")}


def key(page, name, shift=False):
    """Presses a key, as a person does."""
    code, text = KEYS[name]
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=name, code=name if len(name) > 1 else "", text=text,
                  windowsVirtualKeyCode=code, modifiers=8 if shift else 0)


def write(page, text):
    page.call("Input.insertText", text=text)


def focused(page):
    """The words of the control that has the focus."""
    return page.evaluate("""(() => { const it = document.activeElement;
        if (it === document.body) return "";
        return it.getAttribute("aria-label") ?? it.labels?.[0]?.textContent ?? it.innerText ?? it.textContent; })()""")


def tab_to(page, words, limit=80, shift=False):
    """Presses Tab until the control with these words has the focus."""
    for _ in range(limit):
        if words in (focused(page) or ""):
            return
        key(page, "Tab", shift)
    raise Failure(f"Tab does not reach {words!r}; the focus is on {focused(page)!r}")


def sign_in(page, token):
    page.wait("document.querySelector('#token')", "the sign-in")
    page.wait("document.activeElement.id === 'token'", "the focus on the token")
    write(page, token)
    key(page, "Enter")
    page.wait("!document.querySelector('#bar').hidden && document.querySelector('main h1')", "the start page")


def search(page, text):
    """Searches from the keyboard and opens the only result."""
    page.evaluate("document.querySelector('h1')?.focus()")
    key(page, "/")
    page.wait("document.activeElement.id === 'query'", "the focus on the search")
    write(page, text)
    page.wait("document.querySelectorAll('#found:not([hidden]) li').length === 1", f"one result for {text!r}")
    key(page, "ArrowDown")
    key(page, "Enter")
    page.wait("document.querySelector('#summary')", "the customer")


def is_quiet(page):
    """Waits until everything that is being read is shown."""
    page.wait("!document.querySelector('main [aria-busy=true], dialog [aria-busy=true]')", "the end of all reading")


ROOT = pathlib.Path(__file__).resolve().parents[2]
