"""Checks the layout and contrast, measures the latency between devices, and takes screenshots."""

import time

from .browser import Failure, figure, say
from .story import buy, sign_up


def check_widths(page, server):
    """No view is wider than the window, and every control has a name."""
    for width in (320, 390, 1280):
        for scheme in ("light", "dark"):
            page.look(width, 844, scheme)
            for view in ("shop", "owls", "purchases", "account", "device"):
                page.open(server.url + "/#/" + view)
                page.view(view)
                wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                if wide > 0:
                    raise Failure(f"{view} is {wide} pixels wider than {width}")
                tall = page.evaluate(
                    "Math.max(...[...document.querySelectorAll('#tabs a')].map((it) => it.offsetHeight))")
                if tall > 44:
                    raise Failure(f"a tab wraps at {width} pixels: it is {tall} pixels high")
                nameless = page.evaluate("""[...document.querySelectorAll("button, input:not([hidden]), a")]
                    .filter((it) => !it.textContent.trim() && !it.getAttribute("aria-label") && !it.labels?.length)
                    .filter((it) => it.offsetParent !== null).length""")
                if nameless:
                    raise Failure(f"{view} has {nameless} controls without a name")
    page.look(1280, 860, "light")
    say("every view fits into 320, 390 and 1280 pixels")


def check_contrast(page, server):
    """The contrast of text and background is at least 4.5 to 1 (WCAG 2.2, AA)."""
    for scheme in ("light", "dark"):
        page.look(1280, 860, scheme)
        poor = page.run("""
            const luminance = (rgb) => rgb.map((part) => part / 255)
              .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
              .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
            const style = getComputedStyle(document.documentElement);
            const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
            const rgb = (name) => {
              canvas.fillStyle = style.getPropertyValue(name).trim();
              canvas.fillRect(0, 0, 1, 1);
              return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
            };
            const pairs = [["text", "ground"], ["text", "ground-low"], ["text", "surface"], ["quiet", "ground"],
              ["quiet", "ground-low"], ["quiet", "surface"], ["quiet", "field"], ["quiet", "line"],
              ["accent", "ground"], ["accent", "surface"], ["on-accent", "accent"], ["on-accent", "accent-strong"],
              ["good", "good-ground"], ["bad", "bad-ground"], ["bad", "surface"], ["surface", "bad"],
              ["warn-text", "warn-ground"], ["ground", "text"]];
            const ratio = (left, right) => {
              const [low, high] = [luminance(rgb("--" + left)), luminance(rgb("--" + right))].sort((a, b) => a - b);
              return (high + 0.05) / (low + 0.05);
            };
            return pairs.map(([left, right]) => [left, right, ratio(left, right)]).filter(([, , value]) => value < 4.5);
            """)
        if poor:
            raise Failure(f"contrast in {scheme}: {poor}")
    page.look(1280, 860, "light")
    say("text has a contrast of 4.5 or more, light and dark")


def measure(first, second, rounds):
    """Measures, step by step, the time from a purchase on one page until another page shows it."""
    last_of = """performance.getEntriesByType("resource").filter(({ name }) => name.includes(end))
        .map(({ startTime, responseEnd }) => [startTime, responseEnd].map((time) => performance.timeOrigin + time))
        .at(-1)
    """
    watch = """
        globalThis.clock = () => performance.timeOrigin + performance.now();
        globalThis.shown = new Promise((resolve) => {
          const place = document.querySelector("#standing");
          const before = place.innerText;
          new MutationObserver((_, observer) => {
            if (place.innerText === before) return;
            observer.disconnect();
            resolve(clock());
          }).observe(place, { childList: true, subtree: true, characterData: true });
        });
    """
    times = []
    for _ in range(rounds):
        second.run(watch)
        for page in (first, second):
            page.evaluate("performance.clearResourceTimings()")
        buy(first, "RandomOwls")
        limit = figure(5)
        shown = second.evaluate(f"Promise.race([shown, new Promise((resolve) => setTimeout(resolve, {limit * 1000}))])")
        if shown is None:
            raise Failure(f"a purchase is not shown on the other device within {limit} seconds")
        first.wait("!document.querySelector('#timed button[aria-busy]')", "end of the purchase")
        sent, acknowledged = first.run(f"return {last_of}", end="/v1/transactions")
        asked, answered = second.run(f"return {last_of}", end="/v1/entitlements")
        times.append((shown - sent, acknowledged - sent, asked - sent, answered - asked, shown - answered))
    for place, name in enumerate((
            "from the report until the other device shows it", "from the report until it is acknowledged",
            "from the report until the other device asks for its entitlements", "from there until the answer",
            "from there until it is shown")):
        values = sorted(each[place] for each in times)
        middle = values[len(values) // 2]
        high = values[min(len(values) - 1, -(-len(values) * 99 // 100) - 1)]
        say(f"{name}: median {middle:.1f} ms, 99th percentile {high:.1f} ms ({rounds} rounds)")


def take_pictures(browser, server, folder):
    folder.mkdir(parents=True, exist_ok=True)
    looks = [(size, width, height, scheme) for size, width, height in (("phone", 390, 844), ("desktop", 1280, 800))
             for scheme in ("light", "dark")]
    page = browser.device(server.url + "/#/signup")
    for size, width, height, scheme in looks:
        page.look(width, height, scheme)
        page.view("signup")
        time.sleep(0.2)
        page.picture(folder / f"insomniowl-signup-{size}-{scheme}.png")
    sign_up(page, server, "Minerva", "a good night's rest")
    for product in ("3monthsOfRandom", "RandomOwls", "NightOwl", "GoodNightOwl", "InLoveOwl"):
        buy(page, product)
        page.wait("!document.querySelector('[aria-busy]')")
    page.wait("document.querySelectorAll('.owned').length === 3")
    page.wait("document.querySelector('#toast').innerText === ''")
    for view in ("shop", "owls", "purchases", "account"):
        page.press(f'#tabs a[href="#/{view}"]')
        page.view(view)
        for size, width, height, scheme in looks:
            page.look(width, height, scheme)
            if view == "owls":
                page.press("#another")
                page.wait("document.querySelectorAll('#seen li').length >= 1")
            time.sleep(0.3)
            page.picture(folder / f"insomniowl-{view}-{size}-{scheme}.png")
    page.close()
