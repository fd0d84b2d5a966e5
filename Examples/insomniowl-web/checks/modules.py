"""Checks single modules of the page."""

import base64
import json

from .browser import Failure, say
from .server import CATALOG, PREFIX


def check_bytes(page, tool, folder):
    """ledger.js writes the same bytes as syncd, and preserves records of unknown kinds."""
    bonus = json.loads(CATALOG.read_text())
    original = json.loads((CATALOG.parents[1] / "insomniowl.json").read_text())
    if {**original, "policy": {**original["policy"], "consumables": "shared"}} != bonus:
        raise Failure("catalog.json must be insomniowl.json with shared consumables")
    bonus["policy"]["bonus"] = "P1D"
    catalog = folder / "bonus.json"
    catalog.write_text(json.dumps(bonus))
    local = ["--local", f"file:{folder / 'device'}", "--account", "Zoë/50%"]
    tool("account", "create", "Zoë/50%", "--local", f"file:{folder / 'device'}", catalog=catalog)
    steps = [
        {"product": "3monthsOfRandom", "id": "T1", "at": "2026-01-31T00:00:00.000Z"},
        {"product": "6monthsOfRandom", "id": "T2 ünïcode 🦉", "at": "2026-02-03T04:05:06.789Z"},
        {"product": "RandomOwls", "id": "T3", "at": "2026-02-03T04:05:06.789Z", "quantity": 300},
        {"product": "NightOwl", "id": "T4", "at": "2026-02-03T04:05:06.780Z"},
        {"spend": "S1", "product": "RandomOwls", "at": "2031-01-01T00:00:00.001Z"},
        {"product": "CouchOwl", "id": "T5", "at": "1969-12-31T23:59:59.999Z"},
    ]
    for step in steps:
        if "spend" in step:
            tool("use", "random-owls", "--id", step["spend"], "--at", step["at"], *local, catalog=catalog)
        else:
            tool("record", "purchase", PREFIX + step["product"], "--transaction", step["id"], "--at", step["at"],
                 "--quantity", step.get("quantity", 1), *local, catalog=catalog)
        status = json.loads(tool("status", "--json", "--at", step["at"], *local, catalog=catalog))
        ends = [period["end"] for group in status["subscriptions"] for period in group["periods"]]
        step["end"] = max(ends, default=None)
    document = tool("export", "--format", "ledger", *local, catalog=catalog)
    problem = page.run("""
        const { Ledger, nextTime, purchaseRecord, recordingRecord, spendRecord, termsOf } = await import("/ledger.js");
        const { xxh64 } = await import("/xxh64.js");
        const given = Uint8Array.from(atob(document64), (letter) => letter.charCodeAt(0));
        const theirs = Ledger.decode(given);
        const same = (left, right) =>
          left.length === right.length && left.every((byte, index) => byte === right[index]);
        if (!same(theirs.encoded(), given)) return "a document is not written as it was read";
        // A recording's key ends with its replica.
        const replica = theirs.records.find(({ key }) => key[0] === 0x12).key.slice(-16);
        const environment = "production";
        let ours = new Ledger();
        let known = null;
        for (const step of steps) {
          const product = catalog.products.find((each) => each.id === prefix + step.product);
          const date = Date.parse(step.at);
          const time = nextTime(ours.latestTime, date);
          let made = [];
          if (step.spend) {
            made = [spendRecord({ id: step.spend, product: product.id, units: 1, replica, date, environment, time })];
          } else {
            const transaction = { store: "reported", environment, id: step.id };
            const quantity = step.quantity ?? 1;
            const knownEnd = product.type === "nonRenewing" && known ? Date.parse(known) : null;
            made = [
              purchaseRecord({
                transaction, product: product.id, terms: termsOf(product, catalog), date, quantity, time }),
              recordingRecord({ transaction, replica, recordedAt: date, knownEnd, time }),
            ];
          }
          ours = new Ledger(made.reverse()).joined(ours);
          known = step.end;
        }
        if (!same(ours.encoded(), given)) {
          const hex = (part) => Array.from(part, (byte) => byte.toString(16).padStart(2, "0")).join("");
          const texts = [ours, theirs].map((ledger) => ledger.records.map(({ key, order, payload }) =>
            [key, order, payload].map(hex).join(" ")));
          const alone = texts.map((list, side) => list.filter((text) => !texts[1 - side].includes(text)));
          return "ours and theirs: " + JSON.stringify(alone, null, 1);
        }
        // A join preserves a record of an unknown kind, and prefers the larger order of a known key.
        const strange = { key: Uint8Array.of(250, 1, 2, 9, 9), order: Uint8Array.of(255), payload: Uint8Array.of(7) };
        const stronger = { ...ours.records[0], order: ours.records[0].order.map(() => 255) };
        const joined = Ledger.decode(ours.joined(new Ledger([strange, stronger])).joined(ours).encoded());
        if (joined.records.length !== ours.records.length + 1) return "a join has the wrong number of records";
        if (!joined.has(strange.key) || joined.records[0].order[0] !== 255) return "a join lost something";
        // Every flipped bit is detected.
        for (let index = 0; index < given.length; index += 1) {
          const damaged = given.slice();
          damaged[index] ^= 1 << (index % 8);
          try { Ledger.decode(damaged); } catch { continue; }
          return "damage at byte " + index + " is not detected";
        }
        // Published test vectors.
        const digests = ["", "a", "abc", "Nobody inspects the spammish repetition"].map((text) =>
          xxh64(new TextEncoder().encode(text)).toString(16));
        const expected = ["ef46db3751d8e999", "d24ec4f1a98c6e5b", "44bc2cf5ad770999", "fbcea83c8a378bf1"];
        return same(digests, expected) ? "" : "XXH64: " + digests;
        """, document64=base64.b64encode(document).decode(), steps=steps, catalog=bonus, prefix=PREFIX)
    if problem:
        raise Failure("ledger.js: " + problem)
    say(f"ledger.js writes the same {len(document)} bytes as syncd, and detects damage to each of them")


def check_parser(page):
    """Events are parsed correctly from pieces of any size."""
    problem = page.run("""
        const { EventParser } = await import("/events.js");
        const text = ": hé\\r\\nretry: 1000\\n\\nid: 7\\nevent: change\\ndata: {\\"a\\":\\ndata: 1}\\n\\n"
          + "data:x\\r\\n\\r\\nid: 9\\n\\n";
        const bytes = new TextEncoder().encode(text);
        for (let size = 1; size <= bytes.length; size += 1) {
          const heard = [];
          const parser = new EventParser((type, data) => heard.push(type, data));
          for (let at = 0; at < bytes.length; at += size) parser.push(bytes.subarray(at, at + size));
          const seen = JSON.stringify([heard, parser.lastEventID, parser.retry]);
          const expected = JSON.stringify([["change", '{"a":\\n1}', "message", "x"], "9", 1000]);
          if (seen !== expected) return "pieces of " + size + " bytes: " + seen;
        }
        return "";
        """)
    if problem:
        raise Failure("events.js: " + problem)
    say("a stream of events is parsed from pieces of any size")


def check_keys(page):
    """The paths of keys with special characters."""
    keys = {"accounts/alice/1/ledger": "/v1/kv/accounts/alice/1/ledger",
            "accounts/ä b/1": "/v1/kv/accounts/%C3%A4%20b/1",
            "accounts/x%2Fy/1": "/v1/kv/accounts/x%252Fy/1", "accounts/../1": "/v1/kv/accounts%2F%2E%2E%2F1"}
    made = page.run('const { keyPath } = await import("/api.js"); return keys.map(keyPath);', keys=list(keys))
    if made != list(keys.values()):
        raise Failure(f"paths of keys: {made}")


def check_shop(page):
    """shop.js copes with failed and late reads of the documents, and tells test purchases from real ones."""
    problem = page.run("""
        const { Refusal } = await import("/api.js");
        const { Erased, Shop } = await import("/shop.js");
        const product = { id: "owl", type: "nonConsumable" };
        // A server in memory. `fail(key)` returns the error of a read, if any; a read waits for `gate`.
        class Server {
          session = { account: "a", incarnation: "check" };
          isReachable = true;
          documents = new Map();
          fail = () => null;
          gate = null;
          now() { return Date.now(); }
          changes() { return new Promise(() => {}); }
          async catalog() { return { products: [product] }; }
          async entitlements() {
            const access = { owls: { granted: true, because: "group:all" } };
            return { subscriptions: [], owned: [], balances: {}, access };
          }
          async read(key) {
            const found = this.documents.get(key) ?? null;
            const error = this.fail(key);
            await this.gate;
            if (error) throw error;
            return found;
          }
          async write(key, bytes) {
            const tag = `"${this.documents.size + 1}"`;
            this.documents.set(key, { bytes, tag });
            return { tag };
          }
        }
        const busy = new Refusal(503, {}, null);
        const open = async (fail) => {
          const server = new Server();
          server.fail = fail;
          const shop = new Shop(server);
          await shop.open();
          return { server, shop };
        };
        try {
          for (const name of ["ledger", "decisions"]) {
            const { server, shop } = await open((key) => (key.endsWith(name) ? busy : null));
            const state = [shop.catalog !== null, shop.snapshot !== null, shop.isCurrent, shop.purchases];
            if (String(state) !== "true,true,true,") return `the shop without its ${name}: ${state}`;
            if (!(await shop.use("owls")).granted) return `a subscription without the ${name} grants nothing`;
            if (name === "decisions" && !await shop.buy(product)) return "a purchase is reported as unread";
            server.fail = () => null;
            await shop.refresh();
            if (shop.purchases?.length !== server.documents.size) return `the ${name} is not read again`;
            shop.close();
          }
          const erased = await open(() => new Refusal(410, {}, null)).catch((error) => error);
          if (!(erased instanceof Erased)) return "an erased ledger does not end the shop";
          const { server, shop } = await open(() => null);
          let release;
          server.gate = new Promise((resolve) => { release = resolve; });
          const restoring = shop.restore();
          await shop.buy(product);
          release();
          const { purchases } = await restoring;
          if (purchases !== 1 || shop.purchases.length !== 1) return "a late answer removes a purchase";
          const period = { start: "2026-01-01T00:00:00Z", end: "2026-02-01T00:00:00Z", transactionID: "1" };
          shop.snapshot = { ...shop.snapshot, subscriptions: [{ group: "all", periods: [period] }] };
          const periods = ["production", "sandbox"].map((environment) =>
            shop.period({ transaction: { store: "reported", environment, id: "1" } }) !== null);
          if (String(periods) !== "true,false") return `periods of a real and a test purchase: ${periods}`;
          shop.close();
          return "";
        } finally {
          localStorage.removeItem("insomniowl.lastKnown");
          localStorage.removeItem("insomniowl.replica");
        }
        """)
    if problem:
        raise Failure("shop.js: " + problem)
    say("the shop opens, sells and restores although reads of the ledger or the decisions fail or are late")


def check_refresh(page, server):
    """Concurrent requests with an invalid access token share one refresh."""
    # A page of the same origin without the shop, whose own requests would be counted.
    page.open(server.url + "/catalog.json")
    seen = page.run("""
        const { Api } = await import("/api.js");
        const counts = {};
        const real = window.fetch;
        window.fetch = (path, options) => {
          const name = `${options.method} ${path}`;
          counts[name] = (counts[name] ?? 0) + 1;
          // The first five requests are sent with an invalid token.
          if (path === "/v1/entitlements" && counts[name] <= 5) options.headers.Authorization = "Bearer a.b.c";
          return real(path, options);
        };
        const api = new Api();
        await api.self();
        const before = counts["POST /v1/sessions"];
        await Promise.all(Array.from({ length: 5 }, () => api.entitlements()));
        window.fetch = real;
        return [before, counts["POST /v1/sessions"] - before, counts["GET /v1/entitlements"]];
        """)
    if seen != [1, 1, 10]:
        raise Failure(f"refreshes and requests: {seen}")
    page.open(server.url + "/")
    say("five requests that get 401 share one refresh, and are sent again")
