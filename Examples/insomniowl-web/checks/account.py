"""Checks recovery codes, account names, and the marking of invalid fields."""

from .browser import Failure, say
from .story import log_in, sign_up

PASSWORD = "stars all over the sky"


def marked(page, form):
    """The ids of the fields that are marked as invalid."""
    return page.evaluate(f"[...document.querySelectorAll('#{form} [aria-invalid=true]')].map(({{ id }}) => id)")


def expect(what, seen, expected):
    if seen != expected:
        raise Failure(f"{what}: {seen!r}, not {expected!r}")


def codes_of(page):
    page.view("codes")
    return page.text("#codes").split()


def is_dialog_open(page):
    return page.evaluate("document.querySelector('#codes-dialog').open")


def recover(server, code):
    """Tries to set a new password with a code. Returns the status."""
    return server.post("/v1/sessions", {
        "grant_type": "urn:entitlementsync:recovery-code", "username": "nova", "recovery_code": code,
        "new_password": PASSWORD})[0]


def check_codes(browser, server):
    """Recovery codes that are not saved yet are not lost without a question."""
    page = browser.device(server.url + "/#/signup")
    page.view("signup")
    page.type("#signup-name", "  nova ")
    page.type("#signup-password", PASSWORD)
    page.enter()
    codes = codes_of(page)
    expect("recovery codes", len(codes), 8)
    page.sees("#codes-rule", "These codes replace all earlier ones. As soon as you use one of them, the others end too")
    expect("the dialog of a reload", page.reload_refused(), "beforeunload")
    expect("the codes after a reload that was refused", codes_of(page), codes)
    for selector in (".brand", "#codes-done", ".brand"):
        page.press(selector)
        page.wait("document.querySelector('#codes-dialog').open", "question whether to leave the codes")
        page.press("#codes-stay")
        expect("the dialog after staying", is_dialog_open(page), False)
        expect("the codes after staying", codes_of(page), codes)
    page.press("#codes-saved")
    page.evaluate("location.reload()")
    page.view("shop")
    expect("dialogs after the codes were saved", browser.dialogs, [])
    say("unsaved recovery codes: the page asks before a link, a button or a reload loses them")
    page.press('#tabs a[href="#/account"]')
    expect("the name", page.text("#view-account .account-name"), "nova")
    say("spaces around a new account's name are removed")
    page.press("#view-account details:nth-of-type(2) summary")
    page.sees("#renew", "A new set of codes ends all the codes that you have now.")
    page.type("#renew-password", PASSWORD)
    page.enter()
    renewed = codes_of(page)
    if set(renewed) & set(codes):
        raise Failure("new recovery codes repeat old ones")
    page.press("#codes-done")
    page.press("#codes-leave")
    page.view("account")
    if renewed[0] in page.evaluate("document.documentElement.innerHTML"):
        raise Failure("recovery codes are still in the page after leaving them")
    expect("an old code after new ones were created", recover(server, codes[0]), 400)
    expect("a new code", recover(server, renewed[0]), 200)
    expect("another code of the set after one was used", recover(server, renewed[1]), 400)
    page.close()
    say("new recovery codes end the old ones, and the use of one ends the set")


def check_fields(browser, server):
    """An error marks the field that it is about, and no other."""
    page = browser.device(server.url + "/#/signup")

    def submit(form, expected, text, **values):
        for name, value in values.items():
            page.type(f"#{form}-{name}", value)
        page.press(f"#{form} button[type=submit]")
        page.sees(f"#{form} .error", text)
        page.wait(f"document.querySelector('#{form}').getAttribute('aria-busy') === null")
        expect(f"marked fields of {form} after \"{text}\"", marked(page, form), expected)

    page.view("signup")
    submit("signup", ["signup-name"], "Please fill in: Name", name="   ", password=PASSWORD)
    submit("signup", ["signup-password"], "too short", name="nova", password="short")
    submit("signup", ["signup-name"], "This name is taken", password="another password")
    page.type("#signup-name", "self")
    expect("marked fields after typing", marked(page, "signup"), [])
    submit("signup", ["signup-name"], 'The name "self" is reserved', name="self")
    page.press('#view-signup a[href="#/login"]')
    page.view("login")
    submit("login", [], "Name or password is wrong", name="nova", password="something else")
    page.evaluate("window.realFetch = window.fetch; window.fetch = () => Promise.reject(new TypeError()); undefined")
    submit("login", [], "The server does not answer", name="nova", password=PASSWORD)
    page.evaluate("window.fetch = window.realFetch; undefined")
    page.press('#view-login a[href="#/forgot"]')
    page.view("forgot")
    submit("forgot", [], "Name or recovery code is wrong", name="nova", code="AAAA-BBBB-CCCC-DDDD", password=PASSWORD)
    page.press('#view-forgot a[href="#/login"]')
    log_in(page, "nova ", PASSWORD)
    page.view("shop")
    page.press('#tabs a[href="#/account"]')
    page.press("#view-account details:nth-of-type(1) summary")
    submit("password", ["password-old"], "The password is wrong", old="something else", new="a new password")
    submit("password", ["password-new"], "too short", old=PASSWORD, new="short")
    page.press('#view-account a[href="#/device"]')
    page.view("device")
    submit("device", ["device-password"], "enter your password", code="BCDF-GHJK")
    submit("device", ["device-code"], "No device waits with this code", password=PASSWORD)
    page.close()
    say("errors mark the field that they are about, and none if it is not known")
