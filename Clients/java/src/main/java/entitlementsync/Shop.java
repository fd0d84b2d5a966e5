package entitlementsync;

import entitlementsync.Server.Answer;
import entitlementsync.ShopException.Kind;
import java.io.Closeable;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;

/**
 * The purchases of an app's user, on every device.
 *
 * <pre>{@code
 * Shop shop = Shop.open("https://purchases.example.com", new FileStorage(folder), Trust.server());
 * shop.logIn(name, password, EarlierPurchases.ADOPT);                // once
 * shop.report(Item.purchase("owls.3months", "order-17"));            // also offline: it is sent later
 * if (shop.access("night-owls").isGranted()) { … }                   // asks this device, also offline
 * Closeable observation = shop.observe(access -> show(access));      // follows the server until it is closed
 * }</pre>
 *
 * <p>The calls block while they send requests, except {@link #access}, {@link #getAccount} and {@link #observe}, which
 * only read the storage. All methods may be called from any thread, and several processes may use the same storage.
 * In a thread that is interrupted, calls that use the storage fail with {@code CANCELLED}.
 */
public final class Shop implements Closeable {
    /** The use of what was reported on this device before a log-in. */
    public enum EarlierPurchases {
        /** It moves to the account, permanently. Right for a personal device. */
        ADOPT,
        /** It stays on this device, and waits for a log-in that adopts it. */
        LEAVE_ON_DEVICE
    }

    /** Options that few apps need. Each has a default. */
    public static final class Options {
        /** The environment whose purchases count. */
        public String environment = "production";
        /** The sender of requests. */
        public ShopTransport transport = new UrlTransport();
        /** The clock of the device, in milliseconds since 1970 UTC. The shop corrects it by the server's time. */
        public LongSupplier clock = System::currentTimeMillis;
    }

    /** Problems that the operator can solve, so that the items wait until then. */
    private static final Set<String> SOLVABLE = new HashSet<>(Arrays.asList("not-configured", "ledger-full"));

    final Store store;
    final Server server;
    final LongSupplier clock;
    volatile ShopException failure;
    private final Trust trust;
    private final String environment;
    private final Watcher watcher = new Watcher(this);
    /** Log-ins, log-outs and deletions happen one after another. */
    private final ReentrantLock accountChanges = new ReentrantLock();
    /** The items whose callers wait for the answer. Their rejections are not for the listeners. */
    private final Set<Long> awaited = Collections.synchronizedSet(new HashSet<>());
    /** The number of requests for the account's access, and the last one whose answer was stored. */
    private final AtomicLong fetches = new AtomicLong();
    private volatile long lastFetch;

    private Shop(String url, ShopStorage storage, Trust trust, Options options) throws ShopException {
        store = new Store(storage);
        clock = options.clock;
        environment = options.environment;
        this.trust = trust;
        if (!environment.matches("[A-Za-z0-9._-]{1,64}")) {
            throw new ShopException(Kind.INVALID, "the environment has 1 to 64 letters and digits, not " + environment);
        }
        server = new Server(url, options.transport, clock, store);
        store.outbox();
        store.update(
            state -> state.json.put("device", state.device() == null ? Store.randomName() : state.device()));
    }

    /**
     * Opens a shop. Needs no network.
     *
     * @param server the address of the server, {@code https://HOST[:PORT]}
     * @param storage the storage of this device
     * @param trust the authority for access while the server cannot be asked
     * @throws ShopException of the kind {@code NO_SERVER} for a wrong address, or {@code STORAGE}, {@code FULL},
     *     {@code DAMAGED} or {@code NEWER_VERSION}
     */
    public static Shop open(String server, ShopStorage storage, Trust trust) throws ShopException {
        return new Shop(server, storage, trust, new Options());
    }

    /** Opens a shop with options. */
    public static Shop open(String server, ShopStorage storage, Trust trust, Options options) throws ShopException {
        return new Shop(server, storage, trust, options);
    }

    /** Ends all observations. Calls that are under way finish. */
    @Override public void close() { watcher.stop(); }

    // Accounts.

    /** The name of the account that is logged in; null for none. */
    public String getAccount() throws ShopException {
        JsonObject account = store.state().account();
        return account == null ? null : account.text("name");
    }

    /**
     * Creates an account at the server, and logs it in.
     *
     * @return the recovery codes, which the app shows once; empty if the account existed with this password
     * @throws ShopException if no account was created. If only the refresh failed, {@link #getFailure()} has the
     *     reason.
     */
    public List<String> signUp(String name, String password, EarlierPurchases earlier) throws ShopException {
        JsonObject request = new JsonObject().put("name", name).put("password", password);
        return changingAccount(() -> {
            JsonObject body = server.send("POST", "/v1/accounts", request, null).success();
            enter(body, earlier);
            attempt(this::refresh);
            return codes(body);
        });
    }

    /**
     * Logs an account in, and refreshes.
     *
     * @throws ShopException if the account is not logged in, or if only the refresh failed: {@link #getAccount()}
     *     tells them apart
     */
    public void logIn(String name, String password, EarlierPurchases earlier) throws ShopException {
        JsonObject request = new JsonObject().put("grant_type", "password").put("username", name)
            .put("password", password);
        changingAccount(() -> {
            enter(server.send("POST", "/v1/sessions", request, null).success(), earlier);
            refresh();
            return null;
        });
    }

    /**
     * Sets a new password with one of the recovery codes, ends all sessions of the account, and logs in.
     *
     * @return new recovery codes, which replace the former ones
     */
    public List<String> resetPassword(
        String name, String code, String newPassword, EarlierPurchases earlier
    ) throws ShopException {
        JsonObject request = new JsonObject().put("grant_type", "urn:entitlementsync:recovery-code")
            .put("username", name).put("recovery_code", code).put("new_password", newPassword);
        return changingAccount(() -> {
            enter(server.send("POST", "/v1/sessions", request, null).success(), earlier);
            attempt(this::refresh);
            return renewRecoveryCodes(newPassword);
        });
    }

    /** Replaces the recovery codes of the account. The app shows the new ones once. */
    public List<String> renewRecoveryCodes(String password) throws ShopException {
        JsonObject request = new JsonObject().put("password", password);
        return codes(server.send(loggedIn(), "POST", "/v1/accounts/self/recovery-codes", request).success());
    }

    /**
     * Logs out on this device. What could not be sent waits for the next log-in of the account. Without a network the
     * session ends at the server when it expires.
     */
    public void logOut() throws ShopException {
        changingAccount(() -> {
            JsonObject tokens = store.state().tokens();
            store.update(state -> state.enter(null, null));
            if (tokens == null) return null;
            attempt(() -> server.send("DELETE", "/v1/sessions", null, tokens.text("access")).success());
            return null;
        });
    }

    /** Logs out on all devices. If the server cannot be reached, nothing changes. */
    public void logOutEverywhere() throws ShopException {
        changingAccount(() -> {
            server.send(loggedIn(), "DELETE", "/v1/sessions?everywhere=true", null).success();
            store.update(state -> state.enter(null, null));
            return null;
        });
    }

    /** Deletes the account and its purchases, at the server and on all devices. This cannot be undone. */
    public void deleteAccount(String password) throws ShopException {
        changingAccount(() -> {
            State session = loggedIn();
            Answer answer = server.send(
                session, "POST", "/v1/accounts/self/erasure", new JsonObject().put("password", password));
            // An earlier attempt, whose answer was lost, may have deleted the account.
            if (answer.status == 403) attempt(() -> fetch(session));
            if (store.state().generation() != session.generation()) return null;
            answer.success();
            forget(session);
            return null;
        });
    }

    private <Result> Result changingAccount(Store.Action<Result> action) throws ShopException {
        accountChanges.lock();
        try {
            State before = store.state();
            if (before.account() != null) attempt(() -> flush(before));
            return action.run();
        } finally {
            accountChanges.unlock();
            watcher.changed();
        }
    }

    /** Logs in on this device, after the server has accepted the user. */
    private void enter(JsonObject body, EarlierPurchases earlier) throws ShopException {
        JsonObject account = new JsonObject(Kind.DAMAGED).put("name", body.text("account"))
            .put("incarnation", body.text("incarnation"));
        JsonObject tokens = Server.tokens(body, 1);
        store.update(state -> {
            // First, so that after a crash the items wait for this account instead of for no account.
            if (earlier == EarlierPurchases.ADOPT) store.save(store.outbox().adopted(account));
            state.enter(account, tokens);
        });
    }

    /** Logs a deleted account out, and drops what waits for it. */
    private void forget(State session) throws ShopException {
        store.update(session, state -> {
            Outbox outbox = store.outbox();
            JsonObject account = session.account();
            outbox.entries.removeIf(entry -> account.equals(entry.members().get("account")));
            store.save(outbox);
            state.enter(null, null);
        });
        watcher.changed();
    }

    private State loggedIn() throws ShopException {
        State state = store.state();
        if (state.account() == null) throw new ShopException(Kind.LOG_IN_NEEDED, "no account is logged in");
        return state;
    }

    private static List<String> codes(JsonObject body) {
        List<String> codes = new ArrayList<>();
        Object list = body.members().get("recovery_codes");
        if (list instanceof List) for (Object code : (List<?>) list) codes.add(String.valueOf(code));
        return codes;
    }

    // Access.

    /**
     * Returns the access to an entitlement, now and without a network.
     *
     * <p>A thrown error is not a denial: an app that cannot read the storage keeps its last answer.
     *
     * @throws ShopException of the kind {@code CATALOG} if the server's catalogue has no such entitlement, or
     *     {@code STORAGE}, {@code DAMAGED} or {@code NEWER_VERSION}
     */
    public Access access(String entitlement) throws ShopException {
        State state = store.state();
        long now = state.now(clock.getAsLong());
        Access access = access(entitlement, state, grant(state), store.outbox(), now);
        boolean hasEnded = !access.isGranted() && access.getDenial() != Access.Denial.LOG_IN_NEEDED;
        if (state.passed(now, hasEnded)) store.update(stored -> stored.passed(now, hasEnded));
        return access;
    }

    /** Returns the access to every entitlement of the server's catalogue; empty if it is not known. */
    public Map<String, Access> getAllAccess() throws ShopException {
        State state = store.state();
        return allAccess(state, state.now(clock.getAsLong()));
    }

    Map<String, Access> allAccess(State state, long now) throws ShopException {
        Map<String, Access> all = new TreeMap<>();
        if (state.snapshot() == null) return all;
        Outbox outbox = store.outbox();
        Grant grant = grant(state);
        for (String name : state.snapshot().members().keySet()) all.put(name, access(name, state, grant, outbox, now));
        return all;
    }

    private Access access(String entitlement, State state, Grant grant, Outbox outbox, long now)
        throws ShopException {
        if (state.account() == null) return Access.denied(Access.Denial.LOG_IN_NEEDED, null);
        if (state.snapshot() == null) return Access.denied(Access.Denial.RESTORE_NEEDED, null);
        JsonObject answer = state.snapshot().optionalObject(entitlement);
        if (answer == null) {
            throw new ShopException(Kind.CATALOG, "the server's catalogue has no entitlement " + entitlement);
        }
        if (!answer.flag("granted")) {
            String reason = answer.optionalText("reason");
            return Access.denied(Access.Denial.of(reason), answer.optionalTime("date"));
        }
        Instant until = answer.optionalTime("until");
        Long units = answer.optionalNumber("units");
        if (trust.isSigned()) {
            boolean isCurrent = grant != null && grant.isCurrent(now);
            JsonObject entry = isCurrent ? grant.entitlements.optionalObject(entitlement) : null;
            if (entry == null || (entry.optionalNumber("units") == null) != (units == null)) {
                return Access.denied(Access.Denial.RESTORE_NEEDED, null);
            }
            if (units != null) units = Math.min(units, entry.number("units"));
            Instant end = entry.optionalTime("until");
            if (until == null || end != null && end.isBefore(until)) until = end;
        }
        if (until != null && now >= until.toEpochMilli()) return Access.denied(Access.Denial.EXPIRED, until);
        if (units == null) return Access.granted(until, null);
        long left = units - outbox.spends(state.account(), entitlement);
        return left > 0 ? Access.granted(until, left) : Access.denied(Access.Denial.USED_UP, null);
    }

    /** The stored grant; null for none, and for one that is not for this account, device and environment. */
    private Grant grant(State state) throws ShopException {
        if (!trust.isSigned() || state.account() == null || state.grant() == null) return null;
        try {
            return verified(state.grant(), state);
        } catch (ShopException refused) { return null; }
    }

    private Grant verified(String grant, State state) throws ShopException {
        return Grant.verified(grant, trust, state.account(), state.device(), environment);
    }

    // Purchases.

    /**
     * Reports a purchase, a refund, a flag or a request for approval, or sends evidence that a store has signed.
     *
     * <p>The item is stored before it is sent, and sent until the server has answered. If no account is logged in, it
     * waits for a log-in with {@link EarlierPurchases#ADOPT}.
     *
     * @return true if the server has recorded it; false if it waits on this device, see {@link #getFailure()}
     * @throws ShopException if the item could not be stored, or if the server refuses it: {@code CATALOG} for an
     *     unknown product, {@code UNVERIFIED}, {@code OWNED_BY_ANOTHER_ACCOUNT}, {@code REFUSED_BY_SERVER} or
     *     {@code INVALID}
     */
    public boolean report(Item item) throws ShopException {
        JsonObject result = enqueue(null, item);
        if (result == null) return false;
        if (problem(result) != null) throw error(problem(result));
        attempt(() -> fetch(loggedIn()));
        return true;
    }

    /**
     * Uses an entitlement once, and spends a unit if only units grant it.
     *
     * <p>Without a network, units that this device knows of are spent here, and at the server later. Another device
     * may have spent them too; the listeners are then told about the rejection.
     *
     * @param id a name that the app chooses for each use; a repetition with the same id spends nothing more
     */
    public Use use(String entitlement, String id) throws ShopException {
        State session = store.state();
        Access access = access(entitlement);
        Item item = Item.spend(entitlement, id);
        boolean isFree = access.isGranted() && access.getUnits() == null;
        if (session.account() == null || isFree) return new Use(access, 0);
        if (access.isGranted()) {
            JsonObject result = enqueue(session, item);
            if (result != null) return used(session, entitlement, result);
            return new Use(Access.granted(null, access.getUnits() - 1), 1);
        }
        try {
            flush(session);
            return used(session, entitlement, post(session, Collections.singletonList(item.json()), false).get(0));
        } catch (ShopException error) {
            if (!error.isTransient()) throw error;
            setFailure(error);
            return new Use(access, 0);
        }
    }

    private Use used(State session, String entitlement, JsonObject result) throws ShopException {
        attempt(() -> fetch(session));
        JsonObject problem = problem(result);
        Access now = access(entitlement);
        if (problem == null) {
            Long remaining = result.optionalNumber("remaining");
            // The answer to a spend that another process has sent is not known.
            boolean isNew = !result.has("facts") || !result.objects("facts").isEmpty();
            boolean isByUnits = remaining != null || !now.isGranted();
            return new Use(isByUnits ? Access.granted(null, remaining == null ? 0 : remaining) : now, isNew ? 1 : 0);
        }
        if (!"none-left".equals(problem.members().get("code"))) throw error(problem);
        return new Use(now.isGranted() ? Access.denied(Access.Denial.USED_UP, null) : now, 0);
    }

    /** The number of items that the server has not answered yet, for the account that is logged in, or for none. */
    public int getWaitingCount() throws ShopException { return store.outbox().waiting(store.state().account()).size(); }

    /**
     * Sends what waits, and reads the account. For a page that the user pulls down, or an app without an observation.
     */
    public void refresh() throws ShopException {
        State session = loggedIn();
        ShopException failed = null;
        try {
            flush(session);
        } catch (ShopException error) {
            // Another request would fail too.
            if (error.isTransient()) throw error;
            failed = error;
        }
        fetch(session);
        setFailure(failed);
        if (failed != null) throw failed;
    }

    /**
     * Restores purchases because the user asks for it: sends evidence that the app has from the store, and refreshes.
     * Under the server's rule {@code transfer} purchases move from another account to this one.
     *
     * @param evidence all purchases that the store reports on this device; none to only refresh
     * @throws ShopException also if the server refuses an item; the other items are recorded
     */
    public void restore(Item... evidence) throws ShopException {
        State session = loggedIn();
        ShopException refused = null;
        for (int start = 0; start < evidence.length; start += Outbox.BATCH_COUNT) {
            List<JsonObject> batch = new ArrayList<>();
            int end = Math.min(start + Outbox.BATCH_COUNT, evidence.length);
            for (int i = start; i < end; i++) batch.add(evidence[i].json());
            for (JsonObject result : post(session, batch, true)) {
                if (problem(result) != null && refused == null) refused = error(problem(result));
            }
        }
        refresh();
        if (refused != null) throw refused;
    }

    /** The last failure of sending or reading that no later success has settled; null for none. */
    public ShopException getFailure() { return failure; }

    void setFailure(ShopException error) {
        failure = error;
        watcher.changed();
    }

    /**
     * Follows the changes of the access, until the result is closed or the shop is. The shop then keeps a connection
     * to the server, and sends what waits when it is back. On Android observe only while the app shows something.
     */
    public Closeable observe(ShopListener listener) { return watcher.add(listener); }

    // Requests.

    /**
     * Stores an item, and sends what waits. Returns the server's answer to the item; null if it waits.
     *
     * @param expected the state that the item was made for; null if it is for whichever account is logged in
     */
    private JsonObject enqueue(State expected, Item item) throws ShopException {
        long[] id = new long[1];
        State session = store.update(state -> {
            if (expected != null) Store.checkSame(expected, state);
            boolean needsDate = "reported".equals(item.json().members().get("kind")) && !item.json().has("date");
            // The clock of a device that has never reached the server proves nothing, and a date ahead of the server's
            // clock would not count.
            boolean isDated = needsDate && state.offset() != null;
            Instant date = isDated ? Instant.ofEpochMilli(state.now(clock.getAsLong()) - state.slack()) : null;
            Outbox outbox = store.outbox();
            id[0] = outbox.add(state.account(), item, date);
            awaited.add(id[0]);
            store.save(outbox);
        });
        try {
            if (session.account() == null) return null;
            Map<Long, JsonObject> results = Collections.emptyMap();
            ShopException failed = null;
            try {
                results = flush(session);
            } catch (ShopException error) {
                if (error.getKind() == Kind.ACCOUNT_DELETED) throw error;
                failed = error;
            }
            setFailure(failed);
            JsonObject result = results.containsKey(id[0]) ? results.get(id[0]) : stored(id[0]);
            if (result != null && problem(result) != null) {
                store.change(outbox -> outbox.entries.remove(outbox.entry(id[0])));
            }
            return result;
        } finally {
            awaited.remove(id[0]);
            watcher.changed();
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
    private Map<Long, JsonObject> flush(State session) throws ShopException {
        Map<Long, JsonObject> results = new TreeMap<>();
        if (store.outbox().waiting(session.account()).isEmpty()) return results;
        return store.locked("send", () -> {
            while (true) {
                List<JsonObject> batch = store.outbox().batch(session.account());
                if (batch.isEmpty()) return results;
                List<JsonObject> items = new ArrayList<>();
                for (JsonObject entry : batch) items.add(Outbox.content(entry));
                List<JsonObject> answers = post(session, items, false);
                ShopException unsolved = settle(batch, answers, results);
                if (unsolved != null) throw unsolved;
            }
        });
    }

    /** Removes the items that are recorded. Returns the error of an item that must wait; null if none must. */
    private ShopException settle(List<JsonObject> batch, List<JsonObject> answers, Map<Long, JsonObject> results)
        throws ShopException {
        return store.change(outbox -> {
            ShopException unsolved = null;
            for (int i = 0; i < batch.size(); i++) {
                long id = batch.get(i).number("id");
                JsonObject problem = problem(answers.get(i));
                Object code = problem == null ? null : problem.members().get("code");
                if (SOLVABLE.contains(code)) {
                    if (unsolved == null) unsolved = error(problem);
                } else if ("contradiction".equals(code) && batch.get(i).optionalText("date") != null) {
                    // The server may know the purchase with a date that the app has not stated: send it without one.
                    outbox.entry(id).put("date", null);
                } else {
                    results.put(id, answers.get(i));
                    outbox.settle(id, problem);
                }
            }
            return unsolved;
        });
    }

    /** Sends items, and returns their results in the same order. */
    private List<JsonObject> post(State session, List<JsonObject> items, boolean isRestore) throws ShopException {
        JsonObject body = new JsonObject().put("evidence", items).put("account", session.account());
        if (isRestore) body.put("restore", true);
        Answer answer = server.send(session, "POST", "/v1/transactions", body);
        // The reason may be that the account was deleted, which this request reports.
        if (answer.status == 403) fetch(session);
        List<JsonObject> results = answer.success().objects("results");
        if (results.size() != items.size()) {
            throw new ShopException(Kind.NO_SERVER, results.size() + " results for " + items.size() + " items");
        }
        return results;
    }

    /** Reads the account, and stores the answers if it is still logged in. */
    private void fetch(State session) throws ShopException {
        long number = fetches.incrementAndGet();
        Answer answer = server.send(session, "GET", "/v1/entitlements?environment=" + environment, null);
        if (answer.status == 410) forget(session);
        JsonObject access = new JsonObject();
        JsonObject all = answer.success().object("access");
        for (String name : all.members().keySet()) {
            // A later version of the server may add members that are not entitlements.
            if (all.object(name).has("granted")) access.put(name, all.object(name));
        }
        String grant = trust.isSigned() ? fetchGrant(session) : null;
        store.update(session, state -> {
            // The answer to a later request may have arrived first.
            if (number < lastFetch) return;
            lastFetch = number;
            state.json.put("snapshot", access).put("grant", grant);
        });
        watcher.changed();
    }

    private String fetchGrant(State session) throws ShopException {
        String path = "/v1/grants?device=" + session.device() + "&environment=" + environment;
        String text = server.send(session, "GET", path, null).success().text("grant");
        Grant grant = verified(text, session);
        long now = store.state().now(clock.getAsLong());
        if (grant.isCurrent(now)) return text;
        throw Grant.refused("time", "the grant is not valid at " + Instant.ofEpochMilli(now));
    }

    /** Removes the rejected items whose callers do not wait, and returns them. */
    List<JsonObject> takeRejected() throws ShopException {
        List<JsonObject> taken = new ArrayList<>();
        if (store.outbox().rejected().isEmpty()) return taken;
        store.change(outbox -> {
            for (JsonObject entry : outbox.rejected()) if (!awaited.contains(entry.number("id"))) taken.add(entry);
            return outbox.entries.removeAll(taken);
        });
        return taken;
    }

    /** The problem of one item; null if it is recorded. */
    private static JsonObject problem(JsonObject result) {
        Object problem = result.members().get("problem");
        return problem == null || problem instanceof JsonObject ? (JsonObject) problem : result;
    }

    /** The error for the problem of one item. */
    static ShopException error(JsonObject problem) {
        String detail = problem.members().get("code") + ": " + problem.members().get("detail");
        switch (String.valueOf(problem.members().get("code"))) {
            case "unknown-product": case "unknown-entitlement": return new ShopException(Kind.CATALOG, detail);
            case "not-configured": return new ShopException(Kind.NO_SERVER, detail);
            case "invalid": return new ShopException(Kind.INVALID, detail);
            case "evidence-required": case "evidence-refused": return new ShopException(Kind.UNVERIFIED, detail);
            case "owned-by-another": return new ShopException(Kind.OWNED_BY_ANOTHER_ACCOUNT, detail);
            default: return new ShopException(Kind.REFUSED_BY_SERVER, detail);
        }
    }

    private interface Attempt {
        void run() throws ShopException;
    }

    /** Runs an action whose failure fails no call. */
    private void attempt(Attempt action) {
        try {
            action.run();
            setFailure(null);
        } catch (ShopException error) { setFailure(error); }
    }
}
