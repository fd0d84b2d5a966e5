package entitlementsync;

import entitlementsync.Access.Denial;
import entitlementsync.Server.Answer;
import entitlementsync.ShopException.Kind;
import java.io.Closeable;
import java.time.Instant;
import java.util.*;
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

    final Store store;
    final Server server;
    final Sync sync;
    final Trust trust;
    final String environment;
    final Watcher watcher = new Watcher(this);
    /** Log-ins, log-outs and deletions happen one after another. */
    private final ReentrantLock accountChanges = new ReentrantLock();

    private Shop(String url, ShopStorage storage, Trust trust, Options options) throws ShopException {
        environment = options.environment;
        if (!environment.matches("[A-Za-z0-9._-]{1,64}")) {
            throw new ShopException(Kind.INVALID, "the environment has 1 to 64 letters and digits, not " + environment);
        }
        this.trust = trust;
        store = new Store(storage, options.clock);
        server = new Server(url, options.transport, store);
        sync = new Sync(this);
        store.update((state, outbox) -> state.json.members().putIfAbsent("device", Store.randomName()));
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
            Answer answer = server.send("POST", "/v1/accounts", request, null);
            if (answer.status == 409) throw new ShopException(Kind.NAME_TAKEN, answer.detail());
            enter(answer.success(), earlier);
            sync.attempt(this::refresh);
            return codes(answer.body);
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
            sync.attempt(this::refresh);
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
            State session = store.state();
            Sync.Attempt end = () -> server.send(session, "DELETE", "/v1/sessions", null).success();
            if (session.tokens() != null) sync.attempt(end);
            store.update(session, (state, outbox) -> state.enter(null, null));
            return null;
        });
    }

    /** Logs out on all devices. If the server cannot be reached, nothing changes. */
    public void logOutEverywhere() throws ShopException {
        changingAccount(() -> {
            State session = loggedIn();
            server.send(session, "DELETE", "/v1/sessions?everywhere=true", null).success();
            store.update(session, (state, outbox) -> state.enter(null, null));
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
            if (answer.status == 403) sync.attempt(() -> sync.fetch(session));
            if (store.state().generation() != session.generation()) return null;
            answer.success();
            sync.forget(session);
            return null;
        });
    }

    private <Result> Result changingAccount(Store.Action<Result> action) throws ShopException {
        accountChanges.lock();
        try {
            State before = store.state();
            if (before.account() != null) sync.attempt(() -> sync.flush(before));
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
        store.update((state, outbox) -> {
            // Stored first, so that after a crash the items wait for this account instead of for no account.
            if (earlier == EarlierPurchases.ADOPT) outbox.adopt(account);
            state.enter(account, tokens);
        });
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
        return decisions(store.state(), Collections.singleton(entitlement)).get(entitlement);
    }

    /** Returns the access to every entitlement of the server's catalogue; empty if it is not known. */
    public Map<String, Access> getAllAccess() throws ShopException {
        State state = store.state();
        JsonObject known = state.snapshot();
        return decisions(state, known == null ? Collections.emptySet() : known.members().keySet());
    }

    private Map<String, Access> decisions(State state, Set<String> entitlements) throws ShopException {
        Map<String, Access> decisions = new TreeMap<>();
        long now = store.now(state);
        Grant grant = sync.grant(state);
        // In this copy of the state only.
        for (JsonObject entry : store.outbox().waiting(state.account())) state.spend(entry.object("item"));
        for (String name : entitlements) decisions.put(name, access(name, state, grant, now));
        if (state.isNews(now, decisions.values())) {
            store.update((stored, outbox) -> {
                // A contact in the meantime may have put the clock back.
                if (Objects.equals(stored.contact(), state.contact())) stored.passed(now);
            });
        }
        return decisions;
    }

    private Access access(String entitlement, State state, Grant grant, long now) throws ShopException {
        if (state.account() == null) return Access.denied(Denial.LOG_IN_NEEDED, null);
        if (state.snapshot() == null) return Access.denied(Denial.RESTORE_NEEDED, null);
        JsonObject answer = state.snapshot().optionalObject(entitlement);
        if (answer == null) throw new ShopException(Kind.CATALOG, "the catalogue has no entitlement " + entitlement);
        Denial denial = answer.flag("granted") ? null : Denial.of(answer.optionalText("reason"));
        if (denial != null) return Access.denied(denial, answer.optionalTime("date"), answer.optionalText("detail"));
        Instant until = answer.optionalTime("until");
        Long units = answer.optionalNumber("units");
        if (until != null && now >= until.toEpochMilli()) return Access.denied(Denial.EXPIRED, until);
        if (trust.isSigned()) {
            if (state.grant() == null) return Access.denied(Denial.RESTORE_NEEDED, null);
            JsonObject entry = grant == null ? null : grant.entitlements.optionalObject(entitlement);
            boolean isCovered = entry != null && (entry.optionalNumber("units") == null) == (units == null);
            if (!isCovered) return Access.denied(Denial.UNVERIFIED, null);
            if (!grant.isCurrent(now)) return Access.denied(Denial.UNVERIFIED, Instant.ofEpochMilli(grant.expires));
            if (units != null) units = Math.min(units, entry.number("units"));
            Instant end = entry.optionalTime("until");
            if (until == null || end != null && end.isBefore(until)) until = end;
            if (until != null && now >= until.toEpochMilli()) return Access.denied(Denial.UNVERIFIED, until);
        }
        if (units == null) return Access.granted(until, null);
        return units > 0 ? Access.granted(until, units) : Access.denied(Denial.USED_UP, null);
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
        JsonObject result = sync.enqueue(null, item);
        if (result == null) return false;
        JsonObject problem = result.optionalObject("problem");
        if (problem != null) throw Sync.error(problem);
        sync.attempt(() -> sync.fetch(loggedIn()));
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
        if (session.account() == null || access.isGranted() && access.getUnits() == null) return new Use(access, 0);
        if (access.isGranted()) {
            JsonObject result = sync.enqueue(session, item);
            Use offline = new Use(Access.granted(null, access.getUnits() - 1), 1);
            return result == null ? offline : used(session, entitlement, result);
        }
        try {
            sync.flush(session);
            List<JsonObject> results = sync.post(session, Collections.singletonList(item.json()), false);
            return used(session, entitlement, results.get(0));
        } catch (ShopException error) {
            if (!error.isTransient()) throw error;
            sync.setFailure(error);
            return new Use(access, 0);
        }
    }

    private Use used(State session, String entitlement, JsonObject result) throws ShopException {
        sync.attempt(() -> sync.fetch(session));
        JsonObject problem = result.optionalObject("problem");
        Access now = access(entitlement);
        if (problem == null) {
            Long remaining = result.optionalNumber("remaining");
            // The answer to a spend that another process has sent is not known.
            boolean isNew = !result.has("facts") || !result.objects("facts").isEmpty();
            boolean isByUnits = remaining != null || !now.isGranted();
            return new Use(isByUnits ? Access.granted(null, remaining == null ? 0 : remaining) : now, isNew ? 1 : 0);
        }
        if (!"none-left".equals(problem.members().get("code"))) throw Sync.error(problem);
        return new Use(now.isGranted() ? Access.denied(Denial.USED_UP, null) : now, 0);
    }

    /** The number of items that the server has not answered yet, for the account that is logged in, or for none. */
    public int getWaitingCount() throws ShopException { return store.outbox().waiting(store.state().account()).size(); }

    /**
     * Sends what waits, and reads the account. For a page that the user pulls down, or an app without an observation.
     */
    public void refresh() throws ShopException { sync.refresh(loggedIn()); }

    /**
     * Restores purchases because the user asks for it: sends evidence that the app has from the store, and refreshes.
     * Under the server's rule {@code transfer} a purchase of another account moves to this one if its store has signed
     * the evidence since that account sent it.
     *
     * @param evidence all purchases that the store reports on this device; none to only refresh
     * @throws ShopException also if the server refuses an item; the other items are recorded
     */
    public void restore(Item... evidence) throws ShopException {
        State session = loggedIn();
        List<JsonObject> items = new ArrayList<>();
        for (Item item : evidence) items.add(item.json());
        ShopException refused = items.isEmpty() ? null : sync.restore(session, items);
        sync.refresh(session);
        if (refused != null) throw refused;
    }

    /** The last failure of sending or reading that no later success has settled; null for none. */
    public ShopException getFailure() { return sync.failure; }

    /**
     * Follows the changes of the access, until the result is closed or the shop is. The shop then keeps a connection
     * to the server, and sends what waits when it is back. On Android observe only while the app shows something.
     */
    public Closeable observe(ShopListener listener) { return watcher.add(listener); }
}
