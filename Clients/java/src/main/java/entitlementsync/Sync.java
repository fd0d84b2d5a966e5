package entitlementsync;

import entitlementsync.Server.Answer;
import entitlementsync.ShopException.Kind;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;

/** The exchange with the server: sends what waits, and reads the access of the account. */
final class Sync {
    private final Shop shop;
    private final Store store;
    /** The items whose callers wait for the answer. Their rejections are not for the listeners. */
    private final Set<Long> awaited = Collections.synchronizedSet(new HashSet<>());
    /** The number of requests for the account's access, and the last one whose answer was stored. */
    private final AtomicLong fetches = new AtomicLong();
    private volatile long lastFetch;
    /** The last failure that no later success has settled; null for none. */
    volatile ShopException failure;

    Sync(Shop shop) {
        this.shop = shop;
        store = shop.store;
    }

    void setFailure(ShopException error) {
        if (error == null || error.getKind() != Kind.CANCELLED) failure = error;
        shop.watcher.changed();
    }

    interface Attempt {
        void run() throws ShopException;
    }

    /** Runs an action whose failure need not fail a call. Returns the failure; null after a success. */
    ShopException attempt(Attempt action) {
        ShopException failed = null;
        try {
            action.run();
        } catch (ShopException error) { failed = error; }
        setFailure(failed);
        return failed;
    }

    /** Sends what waits, and reads the account. */
    void refresh(State session) throws ShopException {
        ShopException failed = attempt(() -> flush(session));
        // Another request would fail too.
        if (failed != null && failed.isTransient()) throw failed;
        fetch(session);
        setFailure(failed);
        if (failed != null) throw failed;
    }

    // Items.

    /**
     * Stores an item, and sends what waits. Returns the server's answer to the item; null if it waits.
     *
     * @param expected the state that the item was made for; null if it is for whichever account is logged in
     */
    JsonObject enqueue(State expected, Item item) throws ShopException {
        long[] id = new long[1];
        State session = store.update((state, outbox) -> {
            if (expected != null) Store.checkSame(expected, state);
            boolean needsDate = "reported".equals(item.json().members().get("kind")) && !item.json().has("date");
            // The clock of a device that has never reached the server proves nothing, and a date ahead of the server's
            // clock would not count.
            boolean isDated = needsDate && state.offset() != null;
            Instant date = isDated ? Instant.ofEpochMilli(store.now(state) - state.slack()) : null;
            id[0] = outbox.add(state.account(), item, date);
            awaited.add(id[0]);
        });
        try {
            if (session.account() == null) return null;
            Map<Long, JsonObject> results = new TreeMap<>();
            ShopException failed = attempt(() -> results.putAll(flush(session)));
            if (failed != null && failed.getKind() == Kind.ACCOUNT_DELETED) throw failed;
            JsonObject result = results.containsKey(id[0]) ? results.get(id[0]) : stored(id[0]);
            // The caller learns of a problem, so it is not for the listeners.
            if (result != null) store.update((state, outbox) -> outbox.entries.remove(outbox.entry(id[0])));
            return result;
        } finally {
            awaited.remove(id[0]);
            shop.watcher.changed();
        }
    }

    /** The answer to an item that another caller or process has sent; null if the item waits. */
    private JsonObject stored(long id) throws ShopException {
        JsonObject entry = store.outbox().entry(id);
        return entry == null ? new JsonObject() : entry.optionalObject("problem") == null ? null : entry;
    }

    /**
     * Sends what waits for the account, in order, while no other thread or process does. Returns the results by the
     * ids of the items.
     */
    Map<Long, JsonObject> flush(State session) throws ShopException {
        Map<Long, JsonObject> results = new TreeMap<>();
        if (store.outbox().waiting(session.account()).isEmpty()) return results;
        return store.locked("send", () -> {
            int size = Outbox.BATCH_COUNT;
            while (true) {
                List<JsonObject> batch = store.outbox().batch(session.account(), size);
                if (batch.isEmpty()) return results;
                List<JsonObject> items = new ArrayList<>();
                for (JsonObject entry : batch) items.add(Outbox.content(entry));
                List<JsonObject> answers = post(session, items, false);
                size = answers == null ? items.size() / 2 : Math.min(size * 2, Outbox.BATCH_COUNT);
                ShopException unsolved = answers == null ? null : settle(session, batch, answers, results);
                if (unsolved != null) throw unsolved;
            }
        });
    }

    /** Removes the items that are recorded. Returns the error of an item that must wait; null if none must. */
    private ShopException settle(
        State session, List<JsonObject> batch, List<JsonObject> answers, Map<Long, JsonObject> results
    ) throws ShopException {
        ShopException[] unsolved = new ShopException[1];
        store.update((state, outbox) -> {
            for (int i = 0; i < batch.size(); i++) {
                long id = batch.get(i).number("id");
                JsonObject problem = answers.get(i).optionalObject("problem");
                Object code = problem == null ? null : problem.members().get("code");
                if ("not-configured".equals(code) || "ledger-full".equals(code)) {
                    // The operator can solve this. The item waits until then.
                    if (unsolved[0] == null) unsolved[0] = error(problem);
                } else if ("contradiction".equals(code) && batch.get(i).optionalText("date") != null) {
                    // The server may know the purchase with a date that the app has not stated: send it without one.
                    outbox.entry(id).put("date", null);
                } else {
                    results.put(id, answers.get(i));
                    outbox.settle(id, problem);
                    boolean isSpent = problem == null && state.generation() == session.generation();
                    if (isSpent) state.spend(batch.get(i).object("item"));
                }
            }
        });
        return unsolved[0];
    }

    /** Sends the evidence of a restore. Returns the error of the first item that the server refuses; null for none. */
    ShopException restore(State session, List<JsonObject> evidence) throws ShopException {
        List<JsonObject> answers = evidence.size() > Outbox.BATCH_COUNT ? null : post(session, evidence, true);
        if (answers == null) {
            int half = evidence.size() / 2;
            ShopException first = restore(session, evidence.subList(0, half));
            ShopException second = restore(session, evidence.subList(half, evidence.size()));
            return first == null ? second : first;
        }
        for (JsonObject answer : answers) {
            JsonObject problem = answer.optionalObject("problem");
            if (problem != null) return error(problem);
        }
        return null;
    }

    /**
     * Sends items. Returns their results in the same order; null if the request is too long for the server or for a
     * proxy, so that fewer items must be sent. A single item that is too long has a problem as its result.
     */
    List<JsonObject> post(State session, List<JsonObject> items, boolean isRestore) throws ShopException {
        JsonObject body = new JsonObject().put("evidence", items).put("account", session.account());
        if (isRestore) body.put("restore", true);
        Answer answer = shop.server.send(session, "POST", "/v1/transactions", body);
        if (answer.status == 413 && items.size() > 1) return null;
        if (answer.status == 413) {
            JsonObject problem = new JsonObject().put("code", "invalid").put("detail", answer.detail());
            return Collections.singletonList(new JsonObject().put("problem", problem));
        }
        // The reason may be that the account was deleted, which this request reports.
        if (answer.status == 403) fetch(session);
        List<JsonObject> results = answer.success().objects("results");
        if (results.size() == items.size()) return results;
        throw new ShopException(Kind.NO_SERVER, results.size() + " results for " + items.size() + " items");
    }

    /** Returns the rejected items for the listeners, once. */
    List<JsonObject> takeRejected() throws ShopException {
        List<JsonObject> taken = new ArrayList<>();
        store.update((state, outbox) -> taken.addAll(outbox.takeRejected(awaited)));
        return taken;
    }

    /** The error for the problem of one item: see the table in Docs/Protocol.md. */
    static ShopException error(JsonObject problem) {
        String detail = problem.members().get("code") + ": " + problem.members().get("detail");
        switch (String.valueOf(problem.members().get("code"))) {
            case "unknown-product": case "unknown-entitlement": return new ShopException(Kind.CATALOG, detail);
            case "not-configured": return new ShopException(Kind.NO_SERVER, detail);
            case "invalid": case "contradiction": return new ShopException(Kind.INVALID, detail);
            case "evidence-required": return new ShopException(Kind.UNVERIFIED, detail);
            case "owned-by-another": return new ShopException(Kind.OWNED_BY_ANOTHER_ACCOUNT, detail);
            default: return new ShopException(Kind.REFUSED_BY_SERVER, detail);
        }
    }

    // Access.

    /** Reads the account, and stores the answers if it is still logged in. */
    void fetch(State session) throws ShopException {
        long number = fetches.incrementAndGet();
        Answer answer = shop.server.send(session, "GET", "/v1/entitlements?environment=" + shop.environment, null);
        if (answer.status == 410) forget(session);
        JsonObject access = new JsonObject();
        JsonObject all = answer.success().object("access");
        for (String name : all.members().keySet()) {
            // A later version of the server may add members that are not entitlements.
            if (all.object(name).has("granted")) access.put(name, all.object(name));
        }
        String grant = shop.trust.isSigned() ? fetchGrant(session) : null;
        store.update(session, (state, outbox) -> {
            // The answer to a later request may have arrived first.
            if (number < lastFetch) return;
            lastFetch = number;
            state.json.put("snapshot", access).put("grant", grant);
        });
        shop.watcher.changed();
    }

    private String fetchGrant(State session) throws ShopException {
        String path = "/v1/grants?device=" + session.device() + "&environment=" + shop.environment;
        String text = shop.server.send(session, "GET", path, null).success().text("grant");
        Grant grant = verified(text, session);
        long now = store.now(store.state());
        if (grant.isCurrent(now)) return text;
        throw Grant.refused("time", "the grant is not valid at " + Instant.ofEpochMilli(now));
    }

    /** The stored grant; null for none, and for one that is not for this account, device and environment. */
    Grant grant(State state) throws ShopException {
        if (!shop.trust.isSigned() || state.account() == null || state.grant() == null) return null;
        try {
            return verified(state.grant(), state);
        } catch (ShopException refused) { return null; }
    }

    private Grant verified(String grant, State state) throws ShopException {
        return Grant.verified(grant, shop.trust, state, shop.environment);
    }

    /** Logs a deleted account out, and drops what waits for it. */
    void forget(State session) throws ShopException {
        JsonObject account = session.account();
        store.update(session, (state, outbox) -> {
            outbox.entries.removeIf(entry -> account.equals(entry.members().get("account")));
            state.enter(null, null);
        });
        shop.watcher.changed();
    }
}
