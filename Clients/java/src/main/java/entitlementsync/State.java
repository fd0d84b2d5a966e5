package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.util.Objects;

/**
 * The account, the session, the last answers of the server and the clock of a device. A mutable copy of what is stored.
 */
final class State {
    static final String NAME = "shop.json";
    private static final long FORMAT = 1;
    /** The longest round trip, in milliseconds, whose answer corrects the clock. */
    private static final long LONGEST_ROUND_TRIP = 120_000;

    /** The name of this device in grants. */
    String device;
    /** Changes with each log-in and log-out, so that no answer is stored for another account. */
    long generation;
    /** The account that is logged in; null for none. */
    Account account;
    /** The tokens of the session; null if none is logged in, or if the server has ended the session. */
    Tokens tokens;
    /** The last answer of {@code /v1/entitlements}; null for none. */
    JsonObject snapshot;
    /** The last grant; null for none. */
    String grant;
    /** The server's time minus the device's at the last contact, in milliseconds; null before the first. */
    private Long offset;
    /** The latest time since the last contact that has decided something. */
    private long mark;

    /** An account. One that was deleted and created again has another incarnation. */
    static final class Account {
        final String name, incarnation;

        Account(String name, String incarnation) {
            this.name = name;
            this.incarnation = incarnation;
        }

        static Account of(JsonObject json) throws Json.FormatException {
            return json == null ? null : new Account(json.text("name"), json.text("incarnation"));
        }

        static JsonObject json(Account account) {
            if (account == null) return null;
            return new JsonObject().put("name", account.name).put("incarnation", account.incarnation);
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Account)) return false;
            return name.equals(((Account) other).name) && incarnation.equals(((Account) other).incarnation);
        }

        @Override
        public int hashCode() {
            return Objects.hash(name, incarnation);
        }
    }

    /** The tokens of a session. Two access tokens of the same second are equal, so refreshes are counted. */
    static final class Tokens {
        final String access, refresh;
        final long number;

        Tokens(String access, String refresh, long number) {
            this.access = access;
            this.refresh = refresh;
            this.number = number;
        }
    }

    static State decoded(byte[] bytes) throws ShopException {
        State state = new State();
        if (bytes == null) return state;
        try {
            JsonObject json = Json.object(bytes);
            checkFormat(json);
            state.device = json.optionalText("device");
            state.generation = json.number("generation");
            state.account = Account.of(json.optionalObject("account"));
            JsonObject tokens = json.optionalObject("tokens");
            if (tokens != null) {
                state.tokens = new Tokens(tokens.text("access"), tokens.text("refresh"), tokens.number("number"));
            }
            state.snapshot = json.optionalObject("snapshot");
            state.grant = json.optionalText("grant");
            state.offset = json.optionalNumber("offset");
            state.mark = json.number("mark");
            return state;
        } catch (Json.FormatException error) {
            throw new ShopException(Kind.DAMAGED, NAME + ": " + error.getMessage(), error);
        }
    }

    static void checkFormat(JsonObject json) throws ShopException, Json.FormatException {
        if (json.number("format") > FORMAT) {
            throw new ShopException(Kind.NEWER_VERSION, "the stored data has the format " + json.number("format"));
        }
    }

    byte[] encoded() {
        JsonObject json = new JsonObject().put("format", FORMAT).put("device", device).put("generation", generation);
        json.put("account", Account.json(account));
        if (tokens != null) {
            json.put("tokens", new JsonObject().put("access", tokens.access).put("refresh", tokens.refresh)
                .put("number", tokens.number));
        }
        json.put("snapshot", snapshot).put("grant", grant).put("offset", offset).put("mark", mark);
        return Json.bytes(json);
    }

    /** Logs an account in, or out if it is null. What the server has answered about another account is dropped. */
    void enter(Account next, Tokens session) {
        if (!Objects.equals(next, account)) {
            snapshot = null;
            grant = null;
        }
        generation++;
        account = next;
        tokens = session;
    }

    /** True after the server has reported its time. */
    boolean isClockKnown() {
        return offset != null;
    }

    /** The time when the device's clock shows {@code wall}. It never goes back, except by an answer of the server. */
    long now(long wall) {
        return offset == null ? wall : Math.max(wall + offset, mark);
    }

    /**
     * Corrects the clock by the server's time. Request and answer happened at {@code sent} and {@code received} by the
     * device's clock, so the accepted time is behind by at most the round trip.
     *
     * @return true if the correction is worth storing
     */
    boolean correctClock(long serverTime, long sent, long received) {
        if (received < sent || received - sent > LONGEST_ROUND_TRIP) return false;
        long before = now(received);
        boolean isAhead = offset != null && before > serverTime && before - serverTime <= received - sent;
        long corrected = isAhead ? before : serverTime;
        boolean isNews = offset == null || Math.abs(before - serverTime) > 1_000 + received - sent;
        offset = corrected - received;
        mark = corrected;
        return isNews;
    }

    /** Remembers a time that has decided something. Returns true if that is worth storing. */
    boolean passed(long now, boolean hasEnded) {
        if (offset == null || now <= mark || !hasEnded && now - mark < 60_000) return false;
        mark = now;
        return true;
    }
}
