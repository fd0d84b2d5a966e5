// Sessions, the outbox and observers, with a real server.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Shop } from "../entitlement-sync.js";
import { fileStorage } from "../file-storage.js";
import { Link } from "./device.js";
import { memoryStorage, Server } from "./server.js";

const password = "correct horse";
/** True in the long form (`make nightly`). */
const isLong = Boolean(process.env.LONG);

async function opened(server, { storage = memoryStorage(), ...options } = {}) {
  const link = new Link();
  const shop = await Shop.open({ server: server.url, storage, fetch: link.fetch, ...options });
  return { shop, link, storage };
}

/** A running `reporter.js`: `ended` resolves to its lines. */
function reporter(server, folder, prefix, count) {
  const script = fileURLToPath(new URL("reporter.js", import.meta.url));
  const child = spawn(process.execPath, [script, server.url, folder, prefix, String(count)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = [];
  const waiting = [];
  createInterface(child.stdout).on("line", (line) => {
    lines.push(line);
    for (const each of waiting) if (lines.length >= each.count) each.resolve();
  });
  return {
    child, lines,
    ended: new Promise((resolve) => { child.once("close", () => resolve(lines)); }),
    printed: (wanted) => new Promise((resolve) => {
      if (lines.length >= wanted) resolve(); else waiting.push({ count: wanted, resolve });
    }),
  };
}

/** The transactions of the account's purchases, in the order in which the server recorded them. */
async function recorded(shop) {
  const { ledger } = await shop.export();
  return ledger.filter(({ kind }) => kind === "purchase").map(({ transactionID }) => transactionID);
}

test("Ten calls with an expired token renew it once", async (test) => {
  const server = await Server.started(test);
  const { shop, link, storage } = await opened(server);
  await shop.signUp("ann", password);
  const expire = () => storage.update((state) => {
    state.session.access_token += "x";
    return state;
  });
  await expire();
  link.sent = [];
  await Promise.all(Array.from({ length: 10 }, () => shop.export()));
  assert.equal(link.sent.filter((each) => each === "POST /v1/sessions").length, 1);
  // So do two processes of one device.
  const { shop: other, link: otherLink } = await opened(server, { storage });
  await expire();
  [link.sent, otherLink.sent] = [[], []];
  await Promise.all([shop.export(), other.export(), shop.export(), other.export()]);
  assert.equal([...link.sent, ...otherLink.sent].filter((each) => each === "POST /v1/sessions").length, 1);
});

test("An answer that arrives after another log-in is dropped", async (test) => {
  const server = await Server.started(test);
  const { shop, link } = await opened(server);
  await shop.signUp("bob", password);
  await shop.signUp("ann", password);
  for (const path of ["/v1/entitlements", "/v1/accounts/self/export"]) {
    await shop.logIn("ann", password);
    const held = link.hold(path);
    const asked = path.endsWith("export") ? shop.export() : shop.refresh();
    const refused = assert.rejects(asked, { kind: "cancelled" });
    const go = await held;
    const switched = shop.logIn("bob", password);
    // The new session is stored before its purchases are read.
    while ((await shop.account()).name !== "bob") await new Promise((resolve) => { setImmediate(resolve); });
    go();
    await refused;
    await switched;
    assert.equal((await shop.overview()).snapshot.account, "bob");
  }
});

test("A log-out in the middle of a read leaves nothing of the account", async (test) => {
  const server = await Server.started(test);
  const { shop, link } = await opened(server);
  await shop.signUp("ann", password);
  const held = link.hold("/v1/entitlements");
  const refused = assert.rejects(shop.refresh(), { kind: "cancelled" });
  const go = await held;
  await shop.logOut();
  go();
  await refused;
  assert.equal((await shop.overview()).snapshot, null);
  assert.deepEqual(await shop.access("owl"), { granted: false, reason: "logInNeeded", until: null });
});

test("Reports of a process that is killed count once, and none that was confirmed is lost", async (test) => {
  const server = await Server.started(test);
  const folder = join(server.folder, "phone");
  const { shop } = await opened(server, { storage: fileStorage(folder) });
  await shop.signUp("ann", password);
  const expected = new Set();
  const rounds = isLong ? 40 : 5;
  for (let round = 0; round < rounds; round += 1) {
    const run = reporter(server, folder, `round${round}`, 1000);
    await run.printed(1 + round % 8);
    run.child.kill("SIGKILL");
    for (const line of await run.ended) expected.add(`round${round}-${line.split(" ")[0]}`);
  }
  await shop.refresh();
  assert.equal(await shop.waiting(), 0);
  const transactions = await recorded(shop);
  assert.equal(new Set(transactions).size, transactions.length);
  for (const each of expected) assert.ok(transactions.includes(each), each);
  // At most one report of each round was durable, but not confirmed.
  assert.ok(transactions.length <= expected.size + rounds);
  const { units } = await shop.access("random");
  assert.equal(units, 3 * transactions.length);
});

test("Two processes on one device send everything once", async (test) => {
  const server = await Server.started(test);
  const folder = join(server.folder, "phone");
  const { shop, link } = await opened(server, { storage: fileStorage(folder) });
  await shop.signUp("ann", password);
  const runs = ["a", "b"].map((prefix) => reporter(server, folder, prefix, 12));
  for (const lines of await Promise.all(runs.map((run) => run.ended))) {
    assert.deepEqual(lines.map((line) => line.split(" ")[1]), Array(12).fill("true"));
  }
  await shop.refresh();
  assert.equal(link.sent.filter((each) => each === "POST /v1/transactions").length, 0);
  assert.equal((await recorded(shop)).length, 24);
});

test("What was reported offline goes out in order, in one request", async (test) => {
  const server = await Server.started(test);
  const { shop, link } = await opened(server);
  await shop.signUp("ann", password);
  link.isDown = true;
  const sets = [true, false, false, true, false];
  for (const set of sets) {
    const { recorded: isRecorded, failure } = await shop.report({ kind: "flag", product: "owl", set });
    assert.deepEqual([isRecorded, failure.kind, failure.isTransient], [false, "offline", true]);
  }
  link.isDown = false;
  link.sent = [];
  await Promise.all([shop.refresh(), shop.refresh(), shop.refresh()]);
  assert.equal(link.sent.filter((each) => each === "POST /v1/transactions").length, 1);
  assert.deepEqual(link.body.evidence.map(({ set }) => set), sets);
  assert.equal(await shop.waiting(), 0);
});

/** Reports while the link is down. */
async function reportOffline({ shop, link }, transactions) {
  link.isDown = true;
  await shop.sendEvidence(transactions.map((transaction) => ({ kind: "reported", product: "pack", transaction })));
  link.isDown = false;
  link.sent = [];
}

const posts = ({ sent }) => sent.filter((each) => each === "POST /v1/transactions").length;
const numbered = (count, prefix = "p") => Array.from({ length: count }, (_, index) => `${prefix}${index}`);

test("A batch whose body is too long for the server is sent in halves, in order", async (test) => {
  const server = await Server.started(test, { more: ["--limit", "body-bytes=2048"] });
  const { shop, link } = await opened(server);
  await shop.signUp("ann", password);
  const long = "long".repeat(600);
  const transactions = [...numbered(10), long, ...numbered(10, "q")];
  await reportOffline({ shop, link }, transactions);
  await shop.refresh();
  assert.equal(await shop.waiting(), 0);
  assert.deepEqual(await recorded(shop), transactions.filter((each) => each !== long));
  // The item that is too long alone is refused, and stops no other one.
  const { refusals } = await shop.overview();
  assert.deepEqual(refusals.map(({ item, problem }) => [item.transaction, problem.code]), [[long, "invalid"]]);
  assert.ok(posts(link) > 3);
});

const slow = { skip: !isLong && "it takes long: set LONG=1" };
test("A request that needs too many replays is sent in halves", slow, async (test) => {
  const server = await Server.started(test, {
    more: ["--limit", "account-reads=none", "--limit", "account-writes=none"],
  });
  const { shop, link, storage } = await opened(server);
  await shop.signUp("ann", password);
  const { session } = await storage.read();
  const items = (count, prefix) => numbered(count, `${prefix}${"x".repeat(240)}-`).map((transaction) => ({
    kind: "reported", product: "pack", transaction, original: transaction, date: "2026-01-01T00:00:00Z",
  }));
  // For a request the server replays 32 MiB, which is less than 100 items in this ledger need.
  for (let part = 0; part < 8; part += 1) {
    const { status } = await server.post("/v1/transactions", { evidence: items(50, part) }, session.access_token);
    assert.equal(status, 200);
  }
  link.sent = [];
  const results = await shop.restore(items(100, "a"));
  assert.deepEqual(results.map(({ problem }) => problem), Array(100).fill(undefined));
  assert.equal(posts(link), 3);
  assert.equal((await shop.export()).ledger.filter(({ kind }) => kind === "purchase").length, 500);
});

test("A restore of more evidence than one request may have is sent in halves", async (test) => {
  const server = await Server.started(test);
  const { shop, link } = await opened(server);
  await shop.signUp("ann", password);
  link.sent = [];
  const results = await shop.restore(numbered(101).map((jws) => ({ kind: "app-store-transaction", jws })));
  assert.deepEqual(results.map(({ problem }) => problem.code), Array(101).fill("not-configured"));
  assert.equal(posts(link), 3);
});

test("Units that are spent offline never exceed the last known balance", async (test) => {
  const server = await Server.started(test);
  const { shop, link } = await opened(server);
  const { shop: tablet } = await opened(server);
  await shop.signUp("ann", password);
  await shop.report({ product: "pack", transaction: "p1" });
  await tablet.logIn("ann", password);
  link.isDown = true;
  const uses = await Promise.all(["a", "b", "c", "d", "b"].map((id) => shop.use("random", { id })));
  assert.deepEqual(uses.map(({ granted }) => granted), [true, true, true, false, true]);
  assert.equal(await shop.waiting(), 3);
  // Another device spends one of them first: the server refuses the last spend.
  assert.equal((await tablet.use("random")).remaining, 2);
  link.isDown = false;
  await shop.refresh();
  assert.equal(await shop.waiting(), 0);
  const { refusals } = await shop.overview();
  assert.deepEqual(refusals.map(({ item, problem }) => [item.id, problem.code]), [["c", "none-left"]]);
  assert.deepEqual(await shop.access("random"), { granted: false, reason: "usedUp", until: null });
});

test("A purchase that does not count says why", async (test) => {
  const server = await Server.started(test, { policy: "verified" });
  const { shop, storage } = await opened(server);
  await shop.signUp("ann", password);
  const reported = shop.report({ product: "owl", transaction: "o1" });
  await assert.rejects(reported, { kind: "unverified", code: "evidence-required" });
  assert.equal((await shop.access("owl")).reason, "unverified");
  assert.equal((await shop.access("nights")).reason, "notPurchased");
  // A refused purchase explains an earlier end, and no later one.
  const end = async (date) => {
    await storage.update((state) => {
      state.home.snapshot.access.owl = { granted: false, reason: "expired", date };
      return state;
    });
    return (await shop.access("owl")).reason;
  };
  assert.equal(await end("2020-01-01T00:00:00Z"), "unverified");
  assert.equal(await end("2099-01-01T00:00:00Z"), "expired");
  await assert.rejects(shop.access("bats"), { kind: "catalog" });
});

test("A transaction of another account is refused by name", async (test) => {
  const server = await Server.started(test);
  const [{ shop: ann }, { shop: bob }] = [await opened(server), await opened(server)];
  await ann.signUp("ann", password);
  await ann.report({ product: "owl", transaction: "o1" });
  await bob.signUp("bob", password);
  const reported = bob.report({ product: "owl", transaction: "o1" });
  await assert.rejects(reported, { kind: "ownedByAnotherAccount", code: "owned-by-another" });
  assert.equal((await bob.access("owl")).reason, "ownedByAnotherAccount");
});

test("Reports without an account move to the account that adopts them", async (test) => {
  const server = await Server.started(test);
  const { shop } = await opened(server);
  assert.equal((await shop.report({ product: "owl", transaction: "o1" })).recorded, false);
  await shop.signUp("bob", password);
  assert.equal(await shop.waiting(), 1);
  await shop.logOut();
  await shop.signUp("ann", password, { earlierPurchases: "adopt" });
  assert.equal(await shop.waiting(), 0);
  assert.equal((await shop.access("owl")).granted, true);
});

test("A report without a date has that of the call, and a repetition counts once", async (test) => {
  const server = await Server.started(test);
  let time = Date.now();
  const { shop, link } = await opened(server, { clock: () => time });
  await shop.signUp("ann", password);
  link.isDown = true;
  await shop.report({ product: "month", transaction: "m1" });
  const until = time + 30 * 86_400_000;
  time += 10_000;
  link.isDown = false;
  await shop.report({ product: "month", transaction: "m1" });
  assert.ok(Math.abs((await shop.access("nights")).until.getTime() - until) < 5_000);
});

test("An observer sees what another device does, and a log-out", async (test) => {
  const server = await Server.started(test);
  const { shop } = await opened(server);
  const { shop: tablet } = await opened(server);
  test.after(() => shop.close());
  await shop.signUp("ann", password);
  await tablet.logIn("ann", password);
  const seen = [];
  for await (const { account, access, isCurrent } of shop.observe()) {
    seen.push(access.owl?.granted ?? null);
    if (account === null) break;
    if (access.owl.granted) await shop.logOut();
    else if (isCurrent && seen.length === 1) await tablet.report({ product: "owl", transaction: "o1" });
  }
  assert.equal(seen[0], false);
  assert.ok(seen.includes(true));
  assert.equal(seen.at(-1), null);
});

test("An observer ends with its signal, and comes back after the server's restart", async (test) => {
  const server = await Server.started(test);
  const { shop } = await opened(server);
  await shop.signUp("ann", password);
  const stop = new AbortController();
  let step = 0;
  for await (const { isCurrent, failure } of shop.observe({ signal: stop.signal })) {
    if (step === 0 && isCurrent) { step = 1; await server.stop(); }
    else if (step === 1 && failure) { step = 2; await server.start(); }
    else if (step === 2 && isCurrent) { step = 3; stop.abort(); }
  }
  assert.equal(step, 3);
});

test("A user of the app's own issuer logs in with a token, which is renewed", async (test) => {
  const { publicKey, privateKey } = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  const key = { ...await crypto.subtle.exportKey("jwk", publicKey), kid: "k", alg: "EdDSA", use: "sig" };
  const folder = mkdtempSync(join(tmpdir(), "entitlement-sync-"));
  test.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "jwks.json"), JSON.stringify({ keys: [key] }));
  const server = await Server.started(test, {
    more: ["--issuer", "https://app.example", "--audience", "shop", "--jwks", join(folder, "jwks.json")],
  });
  const text = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  let [calls, subject] = [0, "user-17"];
  const token = async () => {
    calls += 1;
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: "https://app.example", aud: "shop", sub: subject, iat: now, exp: now + 600 };
    const body = `${text({ alg: "EdDSA", typ: "JWT", kid: "k" })}.${text(claims)}`;
    const signature = await crypto.subtle.sign("Ed25519", privateKey, Buffer.from(body));
    return `${body}.${Buffer.from(signature).toString("base64url")}`;
  };
  const { shop, link, storage } = await opened(server);
  await shop.logIn(token);
  await shop.report({ product: "owl", transaction: "o1" });
  assert.equal((await shop.access("owl")).granted, true);
  assert.equal(calls, 1);
  link.fail("refuse-token", "/v1/entitlements");
  await shop.refresh();
  assert.equal(calls, 2);
  // After a restart the app passes the function again; without it the user has to log in.
  const { shop: again, link: secondLink } = await opened(server, { storage, token });
  secondLink.fail("refuse-token", "/v1/entitlements");
  await again.refresh();
  assert.equal(calls, 3);
  // A token of another user neither changes nor shows anything.
  subject = "user-18";
  secondLink.fail("refuse-token", "/v1/entitlements");
  await assert.rejects(again.refresh(), { kind: "logInNeeded" });
  subject = "user-17";
  assert.equal((await again.access("owl")).granted, true);
  const { shop: without, link: thirdLink } = await opened(server, { storage });
  thirdLink.fail("refuse-token", "/v1/entitlements");
  await assert.rejects(without.refresh(), { kind: "logInNeeded" });
  // A tab without the function ends no session of the others, and an error of the function is typed.
  secondLink.fail("refuse-token", "/v1/entitlements");
  await again.refresh();
  const failing = async () => { throw new Error("the issuer is down"); };
  await assert.rejects(without.logIn(failing), { kind: "noToken", isTransient: true, description: /issuer is down/ });
  const { shop: unlucky, link: fourthLink } = await opened(server, { storage, token: failing });
  fourthLink.fail("refuse-token", "/v1/entitlements");
  await assert.rejects(unlucky.refresh(), { kind: "noToken", isTransient: true });
  // The deletion asks for a new token, and deletes no account of another user.
  subject = "user-18";
  await assert.rejects(again.deleteAccount(), { kind: "logInNeeded" });
  subject = "user-17";
  const asked = calls;
  await again.deleteAccount();
  assert.equal(calls, asked + 1);
  assert.equal(await again.account(), null);
});

test("Evidence that the server refuses or cannot check is named", async (test) => {
  const server = await Server.started(test);
  const { shop } = await opened(server);
  await shop.signUp("ann", password);
  const play = { kind: "google-play", data: "e30=", signature: "AA==" };
  const evidence = [{ kind: "app-store-transaction", jws: "a.b.c" }, play];
  const results = await shop.sendEvidence(evidence);
  // This server is configured for neither store: the evidence waits until it is.
  assert.deepEqual(results.map(({ recorded: isRecorded, failure }) => [isRecorded, failure?.kind]),
    [[false, "noServer"], [false, "noServer"]]);
  assert.equal(await shop.waiting(), 2);
  const restored = await shop.restore(evidence);
  assert.deepEqual(restored.map(({ problem }) => problem.code), ["not-configured", "not-configured"]);
});

test("A lock has one holder, also after a holder was killed", async (test) => {
  const server = await Server.started(test);
  const folder = join(server.folder, "locks");
  const storage = fileStorage(folder);
  mkdirSync(folder);
  // A process that has ended, and one that has the id of a living process but another start.
  for (const holder of ["999999999 1", `${process.pid} 1`]) {
    const number = 1 + Math.max(0, ...readdirSync(folder).map((name) => Number(name.split(".").at(-1))));
    writeFileSync(join(folder, `sync.lock.${number}`), holder);
    let holders = 0;
    await Promise.all(Array.from({ length: 20 }, () => storage.exclusively("sync", async () => {
      holders += 1;
      assert.equal(holders, 1);
      await new Promise((resolve) => { setImmediate(resolve); });
      holders -= 1;
    })));
  }
  assert.ok(readdirSync(folder).length <= 12);
});
