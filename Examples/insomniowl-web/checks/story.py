"""Uses the page as buyers do, on several devices."""

import json
import time

from .browser import TIMEOUT, Failure, figure, say
from .server import PREFIX


# The entitlements, in a page that follows the account.
ENTITLEMENTS = """
    const { Shop } = await import("/entitlement-sync.js");
    const shop = await Shop.open({ server: "/" });
    await shop.refresh();
    return (await shop.overview()).snapshot;
    """


def sign_up(page, server, name, password):
    page.open(server.url + "/#/signup")
    page.view("signup")
    page.type("#signup-name", name)
    page.type("#signup-password", password)
    page.enter()
    page.view("codes")
    codes = page.text("#codes").split()
    if len(codes) != 8:
        raise Failure(f"{len(codes)} recovery codes are shown")
    page.press("#codes-saved")
    page.press("#codes-done")
    page.view("shop")
    if codes[0] in page.evaluate("document.documentElement.innerHTML"):
        raise Failure("the recovery codes are still in the page")
    return codes


def log_in(page, name, password):
    page.view("login")
    page.type("#login-name", name)
    page.type("#login-password", password)
    page.enter()


def buy(page, product):
    page.press(f'[data-product="{PREFIX}{product}"] button')


def check_log_in(first, second, server):
    codes = sign_up(first, server, "luna", "a good night's rest")
    say("signed up; 8 recovery codes are shown once")
    first.sees("#standing", "No subscription yet")
    first.sees("#standing", "Subscribe for unlimited owls, or buy 5 at a time.")
    log_in(second, "luna", "something else")
    second.sees("#login .error", "wrong")
    second.type("#login-password", "a good night's rest")
    second.enter()
    second.view("shop")
    say("another device logs in, after a wrong password")
    third = first.browser.device(server.url + "/#/signup")
    third.view("signup")
    third.type("#signup-name", "luna")
    third.type("#signup-password", "short")
    third.enter()
    third.sees("#signup .error", "too short")
    third.type("#signup-password", "another password")
    third.enter()
    third.sees("#signup .error", "This name is taken")
    third.close()
    say("a taken name and a short password are refused, with the reason")
    return codes


def check_buying(first, second):
    buy(first, "3monthsOfRandom")
    first.sees("#standing", "Subscribed until")
    until = first.text("#standing .big")
    days = int(first.text("#standing .small").split()[0])
    if not 89 <= days <= 92:
        raise Failure(f"three months are {days} days")
    second.sees("#standing", until, seconds=figure(1))
    say(f"bought: {until}; the other device shows it")
    buy(second, "NightOwl")
    first.sees(f'[data-product="{PREFIX}NightOwl"]', "Owned")
    buy(first, "3monthsOfRandom")
    second.wait(f"document.querySelector('#standing .big').innerText !== {json.dumps(until)}", "later end")
    days = int(second.text("#standing .small").split()[0])
    if not 180 <= days <= 185:
        raise Failure(f"six months are {days} days")
    say("an owl bought there is owned here; renewed here, both devices show six months")
    first.press('#tabs a[href="#/owls"]')
    first.wait("document.querySelector('#owl svg')", "owl")
    seed = first.evaluate("document.querySelector('#owl').dataset.seed")
    first.press("#another")
    first.wait(f"document.querySelector('#owl').dataset.seed !== '{seed}'", "second owl")
    say("a new owl at each press: " + first.text("#owl-words"))
    first.press('#tabs a[href="#/shop"]')


def check_both_at_once(first, second):
    """Both devices buy at once."""
    for page, product in ((first, "CouchOwl"), (second, "ShyOwl")):
        page.evaluate(f"setTimeout(() => document.querySelector('[data-product=\"{PREFIX}{product}\"] button').click(),"
                      f" {time.time() * 1000 + 400} - Date.now())")
    for page in (first, second):
        for product in ("CouchOwl", "ShyOwl"):
            page.sees(f'[data-product="{PREFIX}{product}"]', "Owned")
    say("two devices buy at the same moment: each shows both owls")


def check_units(first, second, server):
    sign_up(first, server, "sol", "wide awake at noon")
    log_in(second, "sol", "wide awake at noon")
    second.view("shop")
    first.press('#tabs a[href="#/owls"]')
    first.sees("#owl-standing", "No owls yet. Subscribe, or buy owls, in the shop.")
    buy(second, "RandomOwls")
    second.sees("#toast", "5 owls added, 5 left.")
    first.sees("#owl-standing", "5 owls left")
    first.press("#another")
    first.sees("#owl-standing", "4 owls left")
    first.sees("#toast", "1 owl used, 4 left.")
    second.sees("#standing", "4 owls left", seconds=figure(1))
    for left in (3, 2, 1):
        first.press("#another")
        first.sees("#owl-standing", f"{left} owl")
    first.press("#another")
    first.sees("#owl-standing", "You have used all your owls. Buy more, or subscribe, in the shop.")
    first.sees("#toast", "1 owl used, 0 left.")
    if not first.evaluate("document.querySelector('#another').hidden"):
        raise Failure("a sixth owl is offered after five")
    second.sees("#standing", "0 owls left")
    say("five owls bought on one device are used on the other, one by one, and the page says when all are used")


def check_local_units(browser, server):
    """With the tutorials' catalogue units stay on their device, so this page does not sell them."""
    page = browser.device(server.url + "/")
    sign_up(page, server, "sol", "wide awake at noon")
    page.sees(f'[data-product="{PREFIX}RandomOwls"]', "Sold in the app only")
    if not page.evaluate(f"document.querySelector('[data-product=\"{PREFIX}RandomOwls\"] button').disabled"):
        raise Failure("the page sells units that it cannot use")
    page.sees("#standing", "Subscribe for unlimited owls.")
    rows = page.evaluate("[...document.querySelectorAll('#timed [data-product]')].map((row) => row.dataset.product)")
    if rows != [PREFIX + name for name in ("RandomOwls", "6monthsOfRandom", "3monthsOfRandom")]:
        raise Failure(f"the rows are not in the order of the catalogue: {rows}")
    page.press('#tabs a[href="#/owls"]')
    page.sees("#owl-standing", "No owls yet. Subscribe in the shop.")
    page.press('#tabs a[href="#/shop"]')
    buy(page, "NightOwl")
    page.sees(f'[data-product="{PREFIX}NightOwl"]', "Owned")
    page.close()
    say("with the tutorials' catalogue the page sells everything except units, and offers none")


def check_return(page, name, password):
    page.press('#tabs a[href="#/account"]')
    page.press("#logout")
    page.view("login")
    kept = page.evaluate("localStorage.getItem('insomniowl.session')")
    if kept is not None:
        raise Failure("a session is still stored after logging out")
    log_in(page, name, password)
    page.view("shop")
    before = page.text("#standing")
    page.press("#restore")
    page.sees("#toast", "restored")
    say(f"logged out, logged in, restored: {page.text('#toast')} {before.splitlines()[0]}")


def check_device(page, server):
    status, grant = server.post("/v1/devices", {})
    if status != 200:
        raise Failure(f"/v1/devices: {status}")
    page.open(server.url + "/?user_code=" + grant["user_code"])
    page.view("device")
    if page.evaluate("document.querySelector('#device-code').value") != grant["user_code"]:
        raise Failure("the code is not filled in")
    page.press("#device button[value=approve]")
    page.sees("#device .error", "your password")
    page.type("#device-password", "something else")
    page.press("#device button[value=approve]")
    page.sees("#device .error", "wrong")
    page.type("#device-password", "a good night's rest")
    page.press("#device button[value=approve]")
    page.sees("#toast", "The device is approved.")
    status, session = server.post("/v1/sessions", {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": grant["device_code"]})
    if status != 200 or session["account"] != "luna":
        raise Failure(f"the device does not get a session: {status} {session}")
    page.open(server.url + "/#/device")
    page.view("device")
    page.type("#device-code", "BCDF-GHJK")
    page.type("#device-password", "a good night's rest")
    page.press("#device button[value=approve]")
    page.sees("#device .error", "No device waits")
    say("a device is approved with its code and the password, from the link that it shows")


def check_outage(first, second, server):
    first.open(server.url + "/#/shop")
    first.view("shop")
    server.stop()
    first.sees("#offline", "does not answer")
    shown = first.text("#standing")
    buy(first, "LonelyOwl")
    first.sees("#toast", "does not answer")
    first.sees(f'[data-product="{PREFIX}LonelyOwl"]', "Buy")
    server.start()
    first.wait("document.querySelector('#offline').hidden", "end of the offline notice")
    if first.text("#standing") != shown:
        raise Failure("the page shows something else after an outage")
    first.sees(f'[data-product="{PREFIX}LonelyOwl"]', "Buy")
    # The streams of changes resume.
    second.wait("document.querySelector('#offline').hidden", "end of the offline notice")
    buy(second, "LonelyOwl")
    first.sees(f'[data-product="{PREFIX}LonelyOwl"]', "Owned")
    say("without the server the page says so and sells nothing; when it is back, the page continues by itself")


def check_lost_answer(page, server):
    """After a lost answer the page sends the purchase again, and it counts once."""
    counts = page.run("""
        const real = window.fetch;
        let posts = 0;
        window.fetch = async (path, options) => {
          if (!path.endsWith("/v1/transactions")) return real(path, options);
          posts += 1;
          const answer = await real(path, options);
          if (posts === 1) throw new TypeError("the answer is lost");
          return answer;
        };
        document.querySelector(`[data-product="${prefix}InLoveOwl"] button`).click();
        const end = performance.now() + timeout;
        while (document.querySelector("#toast").innerText !== "In Love Owl is yours.") {
          if (performance.now() > end) break;
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
        window.fetch = real;
        return [posts, document.querySelector("#toast").innerText];
        """, prefix=PREFIX, timeout=TIMEOUT * 1000)
    if counts != [2, "In Love Owl is yours."]:
        raise Failure(f"a lost answer: {counts}")
    say("after a lost answer the page sends the purchase again, and it counts once")


def check_end_of_session(first, second):
    second.press('#tabs a[href="#/account"]')
    second.press("#logout-everywhere")
    second.view("login")
    # If the server has not ended the stream yet, the next request fails.
    if first.evaluate("document.querySelector('#view-login').hidden"):
        first.press("#restore")
    first.view("login")
    first.sees("#toast", "session has ended")
    if first.evaluate("document.querySelector('#login-name').value") != "luna":
        raise Failure("the name is not filled in after the session has ended")
    say("logged out everywhere: the other device says that its session has ended")


def check_recovery(page, server, codes):
    page.press('#view-login a[href="#/forgot"]')
    page.view("forgot")
    page.sees("#view-forgot", "This ends all your recovery codes")
    page.type("#forgot-name", "luna")
    page.type("#forgot-code", "AAAA-BBBB-CCCC-DDDD")
    page.type("#forgot-password", "a better night's rest")
    page.enter()
    page.sees("#forgot .error", "wrong")
    page.type("#forgot-code", codes[0].lower())
    page.type("#forgot-password", "a better night's rest")
    page.enter()
    page.view("shop")
    page.sees("#standing", "Subscribed until")
    page.sees("#toast", "Your recovery codes have ended")
    status, refusal = server.post("/v1/sessions", {
        "grant_type": "urn:entitlementsync:recovery-code", "username": "luna", "recovery_code": codes[1],
        "new_password": "a better night's rest"})
    if status != 400 or refusal["error"] != "invalid_grant":
        raise Failure(f"another code of the set after one was used: {status} {refusal}")
    page.press('#tabs a[href="#/account"]')
    say("a recovery code sets a new password and ends the other codes; all purchases are there")


def check_password(page):
    page.press("#view-account details:nth-of-type(1) summary")
    page.type("#password-old", "a better night's rest")
    page.type("#password-new", "the best night's rest")
    page.enter()
    page.sees("#toast", "The password is changed, and all other devices are logged out. Your recovery codes have ended")
    page.press("#view-account details:nth-of-type(2) summary")
    page.type("#renew-password", "the best night's rest")
    page.enter()
    page.view("codes")
    page.press("#codes-saved")
    page.press("#codes-done")
    page.view("account")
    say("the password is changed, and new recovery codes are created")


def check_tool(page, tool, server, folder):
    """The command line reads the purchases that the page wrote."""
    local = f"file:{folder / 'copy'}"
    where = ["--local", local, "--remote", server.store]
    tool("account", "login", "luna", *where)
    tool("sync", *where)
    facts = json.loads(tool("facts", "--json", *where))
    products = sorted(fact["productID"][len(PREFIX):] for fact in facts if fact["kind"] == "purchase")
    owls = ["NightOwl", "CouchOwl", "ShyOwl", "LonelyOwl", "InLoveOwl"]
    expected = sorted(["3monthsOfRandom"] * 2 + owls)
    if products != expected:
        raise Failure(f"syncd facts finds {products}")
    status = json.loads(tool("status", "--json", *where))
    ours = page.run(ENTITLEMENTS)
    for member in ("subscriptions", "owned", "balances"):
        if member == "subscriptions":
            # The number of days left may change between the two answers.
            for each in status[member] + ours[member]:
                each.pop("daysRemaining")
        if status[member] != ours[member]:
            raise Failure(f"{member}: syncd shows {status[member]}, the server {ours[member]}")
    say(f"syncd reads all {len(facts)} facts that the page wrote, and derives the same entitlements")


def check_guessing(browser, server):
    page = browser.device(server.url + "/#/login")
    page.view("login")
    page.type("#login-name", "nobody")
    for _ in range(12):
        page.type("#login-password", "wrong password")
        page.enter()
        page.wait("document.querySelector('#login').getAttribute('aria-busy') !== 'true'")
        if "Too many attempts" in page.text("#login .error"):
            break
    page.sees("#login .error", "Too many attempts")
    page.wait("document.querySelector('#login button').disabled", "disabled button")
    say("guessing passwords is slowed down: " + page.text("#login .error"))
    page.close()


def check_erasure(first, second, server):
    second.open(server.url + "/")
    log_in(second, "luna", "the best night's rest")
    second.view("shop")
    first.press('#tabs a[href="#/account"]')
    first.press("#view-account details:nth-of-type(3) summary")
    first.type("#erase-password", "the best night's rest")
    first.enter()
    first.sees("#erase .error", "Please tick")
    first.press("#erase-sure")
    first.type("#erase-password", "not my password")
    first.press("#erase button")
    first.sees("#erase .error", "wrong")
    first.type("#erase-password", "the best night's rest")
    first.press("#erase button")
    first.view("login")
    second.view("login")
    second.sees("#toast", "erased")
    log_in(second, "luna", "the best night's rest")
    second.sees("#login .error", "wrong")
    say("an erased account: the other device shows it at once, and logging in fails")
