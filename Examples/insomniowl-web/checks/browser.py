"""Controls a browser with the DevTools protocol over a pipe."""

import base64
import fcntl
import json
import os
import select
import signal
import subprocess
import time

# Only guards against hanging: a busy machine may need long.
TIMEOUT = 300


def figure(seconds):
    """The bound of a wait: `seconds` if FIGURES is set, which implies a machine without other load."""
    return seconds if os.environ.get("FIGURES") else TIMEOUT


class Failure(Exception):
    """A check that failed."""


def say(text):
    print("  " + text, flush=True)


class Browser:
    """A headless Chromium with a new profile."""

    def __init__(self, path, profile):
        # High descriptors, so that duplicating them to 3 and 4 overwrites none of them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for pipe in (os.pipe(), os.pipe()) for end in pipe]
        theirs_in, self.output, self.input, theirs_out = ends

        def arrange():
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             "--force-color-profile=srgb", "--disable-background-timer-throttling",
             "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--lang=en-GB",
             "--accept-lang=en-GB", "--user-data-dir=" + str(profile), "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=arrange, pass_fds=(3, 4), start_new_session=True, env={**os.environ, "TZ": "UTC"})
        os.close(theirs_in)
        os.close(theirs_out)
        self.received = b""
        self.last_id = 0
        self.faults = []
        self.dialogs = []

    def call(self, method, session=None, **parameters):
        """Calls `method` and returns its result. Events that arrive meanwhile are handled by `note`."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + TIMEOUT
        while True:
            answer = self.receive(end)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def receive(self, end):
        while b"\0" not in self.received:
            if not select.select([self.input], [], [], max(0, end - time.monotonic()))[0]:
                raise Failure("the browser does not answer")
            piece = os.read(self.input, 1 << 20)
            if not piece:
                raise Failure("the browser has ended")
            self.received += piece
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)

    def note(self, event):
        """Collects the errors and the dialogs of pages."""
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description", details["text"]))
        if event.get("method") == "Log.entryAdded":
            entry = parameters["entry"]
            # Chromium also logs each answer with an error status; the checks provoke many of those.
            if entry["source"] != "network" and entry["level"] in ("error", "warning"):
                self.faults.append(entry["text"])
        if event.get("method") == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["type"])

    def device(self, url, **options):
        """Opens a page with separate storage, which plays another device."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        return Page(self, context, url, **options)

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Page:
    """A tab of a browser."""

    def __init__(self, browser, context, url, width=1280, height=860, scheme="light"):
        self.browser, self.context = browser, context
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(domain + ".enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.look(width, height, scheme)
        self.open(url)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def look(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)}.split('?')[0])")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failure(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def run(self, body, **values):
        """Runs `body` as an asynchronous function, with `values` as constants."""
        constants = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
        return self.evaluate("(async () => {" + constants + body + "})()")

    def wait(self, condition, what=None, seconds=TIMEOUT):
        end = time.monotonic() + seconds
        while True:
            value = self.evaluate(f"(() => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }})()")
            if value:
                return value
            if time.monotonic() > end:
                seen = self.evaluate("document.querySelector('main')?.innerText ?? document.body.innerText")
                raise Failure(f"no {what or condition} within {seconds} s; the page shows:\n{seen}")
            time.sleep(0.02)

    def view(self, name):
        self.wait(f"document.querySelector('#view-{name}').hidden === false", f"view {name}")

    def press(self, selector):
        """Presses a button or a link once it is visible and enabled, and not busy with an earlier press."""
        self.wait(f"(() => {{ const it = document.querySelector({json.dumps(selector)}); return it && "
                  "it.offsetParent !== null && !it.disabled && it.getAttribute('aria-busy') !== 'true'; })()",
                  f"{selector} that can be pressed")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, selector, text):
        place = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{place}.focus(); {place}.select();")
        self.call("Input.insertText", text=text)

    def enter(self):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                      windowsVirtualKeyCode=13)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def sees(self, selector, text, seconds=TIMEOUT):
        self.wait(f"document.querySelector({json.dumps(selector)}).innerText.includes({json.dumps(text)})",
                  f'"{text}" in {selector}', seconds)

    def reload_refused(self):
        """Reloads, and answers the question whether to leave the page with no. Returns the type of the dialog."""
        self.browser.dialogs.clear()
        self.call("Page.reload")
        end = time.monotonic() + TIMEOUT
        while not self.browser.dialogs:
            self.browser.note(self.browser.receive(end))
        self.call("Page.handleJavaScriptDialog", accept=False)
        return self.browser.dialogs.pop()

    def revisit(self, url):
        """Opens `url` as a new visit, even if the page is there already."""
        self.open("about:blank")
        self.open(url)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
