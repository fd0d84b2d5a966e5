// Only a grant that a pinned root vouches for, for this account and device and for now, grants access.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Shop } from "../entitlement-sync.js";
import { memoryStorage } from "./server.js";

const base64 = (bytes) => Buffer.from(bytes).toString("base64url");
const text = (value) => base64(JSON.stringify(value));
const [start, issuer] = [1_811_808_000, "https://shop.example"];
const account = { name: "ann", incarnation: "first" };

async function keyPair() {
  const { publicKey, privateKey } = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  return { x: base64(await crypto.subtle.exportKey("raw", publicKey)), privateKey };
}

async function signed(header, payload, { privateKey }) {
  const body = `${text(header)}.${text(payload)}`;
  return `${body}.${base64(await crypto.subtle.sign("Ed25519", privateKey, Buffer.from(body)))}`;
}

const [root, former, key, stranger] = await Promise.all([keyPair(), keyPair(), keyPair(), keyPair()]);
const subject = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(
  `entitlement-grant+jwt\n${issuer}\n${account.incarnation}\n${account.name}`))).toString("hex");

/** A grant with changes: the parts are those of Docs/Grants.md. */
async function grantWith(device, {
  header = {}, payload = {}, keyHeader = {}, keyPayload = {}, rootKey = root, serverKey = key,
} = {}) {
  const statement = await signed({ alg: "EdDSA", typ: "entitlement-key+jwt", ...keyHeader }, {
    iss: issuer, x: key.x, iat: start - 1000, exp: start + 5_000_000, ...keyPayload,
  }, rootKey);
  return signed({ alg: "EdDSA", typ: "entitlement-grant+jwt", kid: "k", key: statement, ...header }, {
    iss: issuer, sub: subject, dev: device, env: "production", iat: start, exp: start + 604_800,
    entitlements: { nights: { until: null } }, ...payload,
  }, serverKey);
}

/** A device that is logged in at a server that answers with the grants of a test. */
class Device {
  storage = memoryStorage();
  time = start * 1000;
  served = start * 1000;
  isDown = false;
  grant = null;
  access = { nights: { granted: true, until: null, because: "group:nights" } };

  async open() {
    const shop = await Shop.open({
      server: issuer, storage: this.storage, trust: { roots: [former.x, root.x] }, clock: () => this.time,
      fetch: async (address) => {
        if (this.isDown) throw new TypeError("the link is down");
        const answers = {
          "/v1/sessions": { access_token: "a", refresh_token: "r", account: account.name, incarnation: "first" },
          "/v1/entitlements": { account: account.name, access: this.access, subscriptions: [] },
          "/v1/catalog": { products: [], entitlements: [] }, "/v1/grants": { grant: await this.grant },
        };
        const headers = { "EntitlementSync-Time": String(this.served) };
        return new Response(JSON.stringify(answers[new URL(address).pathname]), { headers });
      },
    });
    return shop;
  }

  async id() { return (await this.storage.read()).device; }
}

async function loggedIn(changes = {}) {
  const device = new Device();
  // The first use stores the device's id, which the grant names.
  await device.storage.update(() => ({
    format: 1, device: "phone", session: null, home: null, catalog: null, clock: { offset: 0, mark: 0, slack: 0 },
    outbox: [], refusals: [], spent: [],
  }));
  device.grant = grantWith("phone", changes);
  const shop = await device.open();
  await shop.logIn("ann", "correct horse");
  return { device, shop };
}

test("A valid grant grants access", async () => {
  const { shop } = await loggedIn();
  assert.deepEqual(await shop.access("nights"), { granted: true, until: null, source: "group:nights" });
});

const tampered = {
  "another root": { rootKey: stranger },
  "the key of a stranger": { serverKey: stranger },
  "a statement about another key": { keyPayload: { x: stranger.x } },
  "a key that is no key": { keyPayload: { x: "AAAA" } },
  "another server": { payload: { iss: "https://other.example" } },
  "another server in the statement": { keyPayload: { iss: "https://other.example" } },
  "another account": { payload: { sub: subject.replace(/^./, (digit) => (digit === "0" ? "1" : "0")) } },
  "another device": { payload: { dev: "tablet" } },
  "another environment": { payload: { env: "sandbox" } },
  "another algorithm": { header: { alg: "none" } },
  "HMAC with the public key": { header: { alg: "HS256" } },
  "a critical extension": { header: { crit: ["b64"], b64: false } },
  "an access token": { header: { typ: "JWT" } },
  "a statement of another type": { keyHeader: { typ: "entitlement-grant+jwt" } },
  "a grant that outlives its key": { keyPayload: { exp: start + 1000 } },
  "a grant from before its key": { keyPayload: { iat: start + 1 } },
  "an expiry before the issue": { payload: { exp: start } },
  "an expiry that is a text": { payload: { exp: "2099-01-01" } },
  "no entitlements": { payload: { entitlements: null } },
  "an end that is no time": { payload: { entitlements: { nights: { until: "soon" } } } },
  "too many bytes": { payload: { entitlements: { nights: { until: null } }, filler: "a".repeat(65_536) } },
};
for (const [name, changes] of Object.entries(tampered)) {
  test(`A grant is refused: ${name}`, async () => {
    await assert.rejects(loggedIn(changes), { kind: "noServer", description: /^the grant: / });
  });
}

const edits = {
  "a changed payload": ([header, payload, signature]) => {
    const changed = JSON.parse(Buffer.from(payload, "base64url"));
    return [header, text({ ...changed, exp: changed.exp + 1 }), signature];
  },
  "a changed header": ([header, payload, signature]) => {
    const changed = JSON.parse(Buffer.from(header, "base64url"));
    return [text({ ...changed, kid: "other" }), payload, signature];
  },
  "a changed signature": ([header, payload, signature]) =>
    [header, payload, signature.replace(/^./, (letter) => (letter === "A" ? "B" : "A"))],
  "no signature": ([header, payload]) => [header, payload, ""],
  "two segments": ([header, payload]) => [header, payload],
  "a fourth segment": (parts) => [...parts, "AAAA"],
  "padding": ([header, payload, signature]) => [header, payload, `${signature}==`],
  "spare bits in the encoding": ([header, payload, signature]) => {
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return [header, payload, signature.slice(0, -1) + letters[letters.indexOf(signature.at(-1)) + 1]];
  },
  "a payload that is not JSON": ([header, , signature]) => [header, base64("{"), signature],
};
for (const [name, edit] of Object.entries(edits)) {
  test(`A grant is refused after the signature: ${name}`, async () => {
    const { device, shop } = await loggedIn();
    device.grant = edit((await grantWith("phone")).split(".")).join(".");
    await assert.rejects(shop.refresh(), { kind: "noServer" });
    // The last valid grant still counts.
    assert.equal((await shop.access("nights")).granted, true);
    await device.storage.update((state) => ({ ...state, home: { ...state.home, grant: device.grant } }));
    await assert.rejects(shop.access("nights"), { kind: "noServer" });
  });
}

test("Without a connection access ends with the grant, to the millisecond, also after a restart", async () => {
  const { device, shop } = await loggedIn();
  device.isDown = true;
  device.time = (start + 604_800) * 1000 - 50;
  assert.equal((await shop.access("nights")).granted, true);
  device.time = (start + 604_800) * 1000;
  assert.deepEqual(await shop.access("nights"), { granted: false, reason: "unverified", until: null });
  device.time = start * 1000;
  assert.equal((await shop.access("nights")).granted, false);
  const again = await device.open();
  assert.equal((await again.access("nights")).granted, false);
});

test("The clock of a device that is years off is corrected", async () => {
  const { device, shop } = await loggedIn();
  for (const years of [-30, 4]) {
    device.time = start * 1000 + years * 31_557_600_000;
    await shop.refresh();
    assert.equal((await shop.access("nights")).granted, true);
    device.time += 8 * 86_400_000;
    assert.equal((await shop.access("nights")).granted, false);
    await shop.refresh();
    assert.equal((await shop.access("nights")).granted, true);
  }
});

test("An earlier grant that is sent again does not set the clock back", async () => {
  const { device, shop } = await loggedIn();
  device.served += 86_400_000;
  device.grant = grantWith("phone", { payload: { iat: start + 86_400 } });
  await shop.refresh();
  device.grant = grantWith("phone");
  await assert.rejects(shop.refresh(), { kind: "noServer" });
  assert.ok(await shop.now() >= device.served);
});

test("The end of an entitlement in the grant limits an answer that was changed on the device", async () => {
  const end = new Date((start + 3600) * 1000);
  const { device, shop } = await loggedIn({ payload: { entitlements: { nights: { until: end.toISOString() } } } });
  assert.deepEqual(await shop.access("nights"), { granted: true, until: end, source: "group:nights" });
  device.access.owl = { granted: true, until: null, because: "product:owl" };
  await shop.refresh();
  assert.deepEqual(await shop.access("owl"), { granted: false, reason: "unverified", until: null });
  device.time = end.getTime();
  assert.deepEqual(await shop.access("nights"), { granted: false, reason: "unverified", until: null });
});
