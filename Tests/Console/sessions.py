"""The session of the console: cookies, other sites, revoked tokens, tokens that may only read, lost connections."""

from checks.browser import Failure, say
from support import is_quiet, sign_in

SAME = {"EntitlementSync-Console": "1", "Sec-Fetch-Site": "same-origin"}
BUDGET = 100 * 1024


def check_requests(server):
    """A cookie authorises nothing without the marker and the same origin."""
    status, fields, answer = server.ask("POST", "/console/session", {"token": server.tokens["support"]}, fields=SAME)
    cookie = fields["Set-Cookie"]
    if status != 200 or answer["caller"]["scope"] != "support":
        raise Failure(f"no session: {status} {answer}")
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        if part not in cookie:
            raise Failure(f"the cookie is not {part}: {cookie}")
    value = {"Cookie": cookie.split(";")[0]}
    if server.ask("GET", "/v1/server", fields={**value, **SAME})[0] != 200:
        raise Failure("the session authorises nothing")
    grant = {"entitlement": "random-owls", "for": "P1M", "reason": "forged"}
    for name, more in {
            "without the marker": {"Sec-Fetch-Site": "same-origin"},
            "from another site": {**SAME, "Sec-Fetch-Site": "cross-site"},
            "from a neighbour": {**SAME, "Sec-Fetch-Site": "same-site"},
            "by a link": {**SAME, "Sec-Fetch-Site": "none"},
            "with another origin": {"EntitlementSync-Console": "1", "Origin": "https://evil.example"},
            "without any origin": {"EntitlementSync-Console": "1"}}.items():
        for method, path, body in (("GET", "/v1/customers/minerva", None),
                                   ("POST", "/v1/customers/minerva/grants", grant)):
            status = server.ask(method, path, body, fields={**value, **more, "Idempotency-Key": "forged"})[0]
            if status != 401:
                raise Failure(f"{method} {path} {name} is answered with {status}")
    if server.ask("POST", "/console/session", {"token": server.tokens["read"]}, fields={})[0] != 403:
        raise Failure("another site can sign a browser in")
    for path in ("/console", "/console/main.js"):
        fields = server.ask("GET", path)[1]
        if "frame-ancestors 'none'" not in fields["Content-Security-Policy"] or fields["X-Frame-Options"] != "DENY":
            raise Failure(f"{path} can be framed")
    say("a cookie is refused in 12 requests without the marker or the same origin, and the page cannot be framed")


def check_first_view(browser, server):
    """Counts the bytes of the first view, and looks for requests to other hosts."""
    page = browser.device(server.url + "/console")
    page.wait("document.querySelector('#token')", "the sign-in")
    sign_in(page, server.tokens["support"])
    seen = page.evaluate("""performance.getEntriesByType("resource").filter((it) => it.name.includes("/console"))
        .map((it) => [it.name, it.decodedBodySize]).concat([[location.href,
          performance.getEntriesByType("navigation")[0].decodedBodySize]])""")
    strangers = page.evaluate("""performance.getEntriesByType("resource").map((it) => it.name)
        .filter((it) => !it.startsWith(location.origin))""")
    if strangers:
        raise Failure(f"the page asks other hosts: {strangers}")
    first = sum(size for name, size in seen if "session" not in name)
    rest = page.run("""let sum = 0;
        for (const it of ["customer", "timeline", "acts", "overview", "charts", "catalog"]) {
          sum += (await (await fetch(`/console/${it}.js`)).arrayBuffer()).byteLength;
        }
        return sum;""")
    if first > BUDGET:
        raise Failure(f"the first view has {first:,} bytes")
    page.close()
    say(f"the first view has {first:,} bytes of files, and all files have {first + rest:,}")


def check_lost(page, server):
    """The page says that the connection is lost, and goes on by itself."""
    page.evaluate("location.hash = '#/customer/luna'")
    page.wait("document.querySelector('h1')?.innerText === 'luna' && document.querySelector('#summary')", "luna")
    is_quiet(page)
    server.stop()
    page.sees("#connection", "Connection lost")
    page.press("[data-key=grant]")
    page.type("#act-reason", "while the server is away")
    page.evaluate("document.querySelector('dialog form').requestSubmit()")
    page.sees("dialog", "The server does not answer")
    page.evaluate("document.querySelector('dialog .plain').click()")
    server.start()
    page.wait("document.querySelector('#connection').innerText === ''", "the end of the outage")
    is_quiet(page)
    if page.text("#summary") == "":
        raise Failure("the customer is not shown after the outage")
    say("a lost connection is shown, and recovers without a reload")


def check_read_only(browser, server):
    """A token that may only read sees no acts, and the server refuses all of them."""
    page = browser.device(server.url + "/console")
    sign_in(page, server.tokens["read"])
    page.evaluate("location.hash = '#/customer/luna'")
    page.wait("document.querySelector('#summary')", "the customer")
    is_quiet(page)
    page.sees("main", "Your token may only read")
    acts = page.evaluate("""[...document.querySelectorAll("main button")].map((it) => it.innerText)
        .filter((it) => /Grant|Refund|Transfer|Reinstate|End|Recovery|Erase|again/.test(it))""")
    if acts:
        raise Failure(f"a token that may only read sees {acts}")
    statuses = page.run("""
        const headers = { "EntitlementSync-Console": "1", "Content-Type": "application/json", "Idempotency-Key": "k" };
        const send = async (method, path) => (await fetch(path, {
          method, headers, body: JSON.stringify({ reason: "x" }) })).status;
        const all = ["grants", "refunds", "transfers", "recovery", "erasure"];
        return Promise.all([...all.map((it) => send("POST", "/v1/customers/luna/" + it)),
          send("DELETE", "/v1/customers/luna/sessions"), send("PUT", "/v1/customers/luna/external-id"),
          send("POST", "/v1/tokens"), send("POST", "/v1/webhooks/x/deliveries")]);""")
    if set(statuses) != {403}:
        raise Failure(f"acts with a token that may only read: {statuses}")
    page.close()
    say(f"a token that may only read sees no act, and the server refuses {len(statuses)} of them")


def check_revoked(browser, server):
    """A revoked token ends the session at the next request."""
    token = server.token("leaver", "support")
    page = browser.device(server.url + "/console")
    sign_in(page, token)
    page.evaluate("location.hash = '#/customer/luna'")
    page.wait("document.querySelector('#summary')", "the customer")
    server.ask("DELETE", "/v1/tokens/leaver", token=server.tokens["admin"])
    page.evaluate("location.hash = '#/overview'")
    page.wait("document.querySelector('#token')", "the sign-in")
    page.sees("main", "was revoked")
    status, fields, _ = server.ask("GET", "/v1/server", fields={**SAME, "Cookie": "syncd-console=" + token})
    if status != 401 or "Max-Age=0" not in fields["Set-Cookie"]:
        raise Failure(f"a stolen cookie of a revoked token: {status} {fields}")
    page.close()
    page = browser.device(server.url + "/console")
    sign_in(page, server.tokens["read"])
    page.evaluate("document.querySelector('#who button').click()")
    page.wait("document.querySelector('#token')", "the sign-in")
    page.revisit(server.url + "/console")
    page.wait("document.querySelector('#token')", "the sign-in after signing out")
    page.close()
    say("a revoked token and signing out end the session")

