// Bad input and failing devices: typed errors with texts that an app can show, and nothing is changed.

import assert from "node:assert/strict";
import { promises as fs, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { Shop, ShopError } from "../entitlement-sync.js";
import { fileStorage } from "../file-storage.js";
import { Link } from "./device.js";
import { memoryStorage, repository, Server } from "./server.js";

const password = "correct horse";

async function opened(server, { storage = memoryStorage(), ...options } = {}) {
  const link = new Link();
  const shop = await Shop.open({ server: server.url, storage, fetch: link.fetch, ...options });
  return { shop, link, storage };
}

test("Bad input is a typed error with a text for the user", async (test) => {
  const server = await Server.started(test);
  const { shop } = await opened(server);
  await assert.rejects(shop.refresh(), { kind: "logInNeeded", message: /^You are not logged in\. Log in/ });
  await assert.rejects(shop.signUp("", password), { kind: "invalid", message: /^This is not allowed: .*\. Change it/ });
  await assert.rejects(shop.signUp("ann", "short"), { kind: "invalid" });
  await assert.rejects(shop.logIn("ann", password), { kind: "wrongPassword" });
  await shop.signUp("ann", password);
  await assert.rejects(shop.signUp("ann", "another password"), { kind: "nameTaken" });
  await assert.rejects(shop.resetPassword("ann", "AAAA-BBBB-CCCC-DDDD", "new password"), { kind: "wrongPassword" });
  await assert.rejects(shop.deleteAccount("wrong horse"), { kind: "wrongPassword" });
  assert.equal((await shop.account()).name, "ann");
  await assert.rejects(Shop.open({ server: "ftp://shop", storage: memoryStorage() }), { kind: "noServer" });
  await assert.rejects(opened(server, { trust: { roots: [] } }), { kind: "invalid" });
  await assert.rejects(opened(server, { trust: { roots: ["AA"] } }), { kind: "invalid", description: /not AA$/ });
});

test("Without a network at the first start the shop opens, and keeps what is reported", async (test) => {
  const server = await Server.started(test);
  const { shop, link } = await opened(server);
  link.isDown = true;
  const text = /^There is no connection to the server\. Purchases on this device are safe\. Try again later\.$/;
  await assert.rejects(shop.signUp("ann", password), { kind: "offline", isTransient: true, message: text });
  await assert.rejects(shop.logIn("ann", password), { kind: "offline", message: text });
  await assert.rejects(shop.catalog(), { kind: "offline" });
  assert.deepEqual(await shop.access("owl"), { granted: false, reason: "logInNeeded", until: null });
  assert.equal((await shop.report({ product: "owl", transaction: "o1" })).recorded, false);
  link.isDown = false;
  await shop.signUp("ann", password, { earlierPurchases: "adopt" });
  assert.equal((await shop.access("owl")).granted, true);
});

test("A server of another kind is named as such, and no answer of it is believed", async (test) => {
  const answers = {
    html: [200, "<!doctype html><title>Welcome</title>"], object: [200, "{}"], null: [200, "null"], list: [201, "[]"],
    missing: [404, "Not found"], broken: [500, "<h1>Error</h1>"], refused: [403, '{"error":"forbidden"}'],
    gone: [410, "Gone"],
  };
  let answer;
  const other = createServer((request, response) => {
    response.writeHead(answer[0], { "Content-Type": "application/json" }).end(answer[1]);
  });
  await new Promise((resolve) => { other.listen(0, "127.0.0.1", resolve); });
  test.after(() => other.close());
  const server = await Server.started(test);
  const { shop, storage } = await opened(server);
  await shop.signUp("ann", password);
  await shop.report({ product: "owl", transaction: "o1" });
  const { shop: moved } = await opened({ url: `http://127.0.0.1:${other.address().port}` }, { storage });
  const before = await storage.read();
  for (const [name, each] of Object.entries(answers)) {
    answer = each;
    const text = "The shop of this app does not work. Please look for an update of the app.";
    await assert.rejects(moved.logIn("ann", password), { kind: "noServer", message: text, isTransient: false }, name);
    await assert.rejects(moved.refresh(), { kind: "noServer" }, name);
    assert.equal((await moved.access("owl")).granted, true, name);
  }
  answer = [503, "busy"];
  await assert.rejects(moved.refresh(), { kind: "offline", isTransient: true });
  const after = await storage.read();
  assert.deepEqual({ ...after, clock: null }, { ...before, clock: null });
});

test("A catalogue without the product or the entitlement is a mistake of the app", async (test) => {
  const server = await Server.started(test);
  const { shop } = await opened(server);
  await shop.signUp("ann", password);
  const text = "The shop of this app does not work. Please look for an update of the app.";
  const reported = shop.report({ product: "bat", transaction: "b1" });
  await assert.rejects(reported, { kind: "catalog", code: "unknown-product", message: text });
  await assert.rejects(shop.access("bats"), { kind: "catalog", message: text });
  await assert.rejects(shop.use("bats"), { kind: "catalog" });
  // The item blocks nothing that comes after it.
  assert.equal((await shop.report({ product: "owl", transaction: "o1" })).recorded, true);
  const bare = await Server.started(test, { catalog: null });
  const { shop: other } = await opened(bare);
  await assert.rejects(other.catalog(), { kind: "catalog", description: "the server has no catalogue" });
});

test("A damaged, newer or inaccessible storage is a typed error, and is not changed", async (test) => {
  const server = await Server.started(test);
  const folder = join(server.folder, "phone");
  mkdirSync(folder);
  for (const [text, kind] of [["{", "damaged"], ["{}", "damaged"], ['{"format":2}', "newerVersion"]]) {
    writeFileSync(join(folder, "state.json"), text);
    await assert.rejects(opened(server, { storage: fileStorage(folder) }), { kind });
    assert.equal(readFileSync(join(folder, "state.json"), "utf8"), text);
  }
  await assert.rejects(opened(server, { storage: fileStorage(join(folder, "state.json")) }), { kind: "storage" });
});

test("A full disk is a typed error, and nothing that was confirmed is lost", async (test) => {
  const server = await Server.started(test);
  const { shop, link } = await opened(server, { storage: fileStorage(join(server.folder, "phone")) });
  await shop.signUp("ann", password);
  link.isDown = true;
  await shop.report({ product: "owl", transaction: "o1" });
  const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  const { mock } = test.mock.method(fs, "writeFile", async () => { throw full; });
  const text = "This device has no free space. Free some space, and try again. Nothing was lost.";
  await assert.rejects(shop.report({ product: "pack", transaction: "p1" }), { kind: "full", message: text });
  mock.restore();
  link.isDown = false;
  await shop.refresh();
  assert.equal(await shop.waiting(), 0);
  assert.equal((await shop.access("owl")).granted, true);
  assert.equal((await shop.access("random")).granted, false);
});

test("A certificate that is not trusted is a typed error", async () => {
  const codes = ["CERT_HAS_EXPIRED", "DEPTH_ZERO_SELF_SIGNED_CERT", "UNABLE_TO_VERIFY_LEAF_SIGNATURE"];
  for (const code of codes) {
    const fetch = async () => {
      throw new TypeError("fetch failed", { cause: Object.assign(new Error("the certificate"), { code }) });
    };
    const shop = await Shop.open({ server: "https://shop.example", storage: memoryStorage(), fetch });
    await assert.rejects(shop.logIn("ann", password), { kind: "untrusted", isTransient: false });
  }
});

test("At most 1,000 items wait for the server", async (test) => {
  const server = await Server.started(test);
  const { shop } = await opened(server);
  const items = Array.from({ length: 1_000 }, (_, index) => ({ kind: "flag", product: "owl", set: index % 2 === 0 }));
  await shop.sendEvidence(items);
  await assert.rejects(shop.report({ product: "owl", transaction: "o1" }), { kind: "outboxFull" });
  await assert.rejects(shop.sendEvidence(items), { kind: "outboxFull", isTransient: true, message: /^Too much waits/ });
  assert.equal(await shop.waiting(), 1_000);
});

// Contracts

test("The texts of errors are those of the Swift kit", () => {
  const kit = readFileSync(join(repository, "Sources/EntitlementKit/ShopError.swift"), "utf8");
  const kinds = [
    "catalog", "noServer", "offline", "wrongPassword", "tooManyAttempts", "nameTaken", "notAllowed", "cancelled",
    "logInNeeded", "accountDeleted", "full", "storage", "damaged", "newerVersion", "untrusted", "noToken", "other",
  ];
  for (const denial of ["unverified", "ownedByAnotherAccount", "refusedByServer"]) {
    assert.ok(kit.includes(`case .${denial}: "${new ShopError(denial, "a reason").message}"`), denial);
  }
  for (const kind of kinds) {
    for (const isTransient of [false, true]) {
      const { message } = new ShopError(kind, "a reason", { isTransient });
      assert.ok(kit.includes(`"${message}"`), `${kind}: ${message}`);
    }
    assert.ok(kit.includes(`static let ${kind} = Kind`), kind);
  }
  const { message } = new ShopError("invalid", "a reason");
  assert.ok(kit.includes(`"${message.replace("a reason", "\\(description)")}"`), message);
});

test("The declarations name every call and export", async () => {
  const text = readFileSync(new URL("../entitlement-sync.d.ts", import.meta.url), "utf8");
  const [, body] = /^export class Shop \{$(.*?)^\}$/ms.exec(text);
  const declared = new Set([...body.matchAll(/^  (?:static )?(\w+)\(/gm)].map(([, name]) => name));
  const calls = [...Object.getOwnPropertyNames(Shop.prototype), "open"];
  assert.deepEqual([...declared].filter((name) => name !== "constructor").sort(),
    calls.filter((name) => name !== "constructor").sort());
  const exported = Object.keys(await import("../entitlement-sync.js")).filter((name) => name !== "Turns");
  for (const name of exported) assert.match(text, new RegExp(`^export (class|function) ${name}\\b`, "m"));
});
