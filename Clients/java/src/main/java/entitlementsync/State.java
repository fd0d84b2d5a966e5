package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.util.*;

/**
 * The account, the session, the last answers of the server and the clock of a device. A mutable copy of what is stored.
 *
 * <p>The getters throw an error of the kind {@code DAMAGED} for a member of another type.
 */
final class State {
    static final String NAME = "shop.json";
    private static final long FORMAT = 1;

    final JsonObject json;

    /** Decodes a stored state; null for the first one. */
    State(byte[] bytes) throws ShopException {
        json = stored(bytes, new JsonObject(Kind.DAMAGED).put("generation", 0L).put("mark", 0L));
    }

    /** Decodes a stored object of this version, or returns the first one with the format of this version. */
    static JsonObject stored(byte[] bytes, JsonObject first) throws ShopException {
        JsonObject json = bytes == null ? first.put("format", FORMAT) : Json.object(bytes, Kind.DAMAGED);
        if (json.number("format") <= FORMAT) return json;
        throw new ShopException(Kind.NEWER_VERSION, "the stored data has the format " + json.number("format"));
    }

    /** The name of this device in grants; null before the first shop is open. */
    String device() throws ShopException { return json.optionalText("device"); }

    /** Changes with each log-in and log-out, so that no answer is stored for another account. */
    long generation() throws ShopException { return json.number("generation"); }

    /** The {@code name} and {@code incarnation} of the account that is logged in; null for none. */
    JsonObject account() throws ShopException { return json.optionalObject("account"); }

    /**
     * The tokens {@code access} and {@code refresh} of the session, and their {@code number}: two access tokens of the
     * same second are equal. Null if no account is logged in, or if the server has ended the session.
     */
    JsonObject tokens() throws ShopException { return json.optionalObject("tokens"); }

    /** The access of the last answer of {@code /v1/entitlements}; null for none. */
    JsonObject snapshot() throws ShopException { return json.optionalObject("snapshot"); }

    /** Counts a spend that the last answer of the server lacks. Entitlements with the same source share its units. */
    void spend(JsonObject item) throws ShopException {
        String name = item.optionalText("entitlement");
        JsonObject spent = name == null || snapshot() == null ? null : snapshot().optionalObject(name);
        if (spent == null || spent.optionalNumber("units") == null) return;
        for (String each : snapshot().members().keySet()) {
            JsonObject access = snapshot().object(each);
            boolean isShared = Objects.equals(access.optionalText("because"), spent.optionalText("because"));
            if (isShared) access.put("units", access.number("units") - 1);
        }
    }

    /** The last grant; null for none. */
    String grant() throws ShopException { return json.optionalText("grant"); }

    /** Logs an account in, or out if it is null. What the server has answered about another account is dropped. */
    void enter(JsonObject account, JsonObject tokens) throws ShopException {
        if (!Objects.equals(account, account())) json.put("snapshot", null).put("grant", null);
        json.put("generation", generation() + 1).put("account", account).put("tokens", tokens);
    }

    /** The server's time minus the device's at the last contact, in milliseconds; null before the first. */
    Long offset() throws ShopException { return json.optionalNumber("offset"); }

    /** The server's time at the last contact that has corrected the clock; null before the first. */
    Long contact() throws ShopException { return json.optionalNumber("contact"); }

    /** The latest time since the last contact that has decided something. */
    private long mark() throws ShopException { return json.number("mark"); }

    /** The time when the device's clock shows {@code wall}. It never goes back, except by an answer of the server. */
    long now(long wall) throws ShopException { return offset() == null ? wall : Math.max(wall + offset(), mark()); }

    /** The amount by which {@link #now} may be ahead of the server's clock, in milliseconds. */
    long slack() throws ShopException { return json.number("slack"); }

    /**
     * Corrects the clock by the server's time. The server has read its clock after {@code sent} by the device's clock,
     * so the corrected clock is never behind: access does not end late. It is ahead by at most the round trip.
     */
    void correctClock(long serverTime, long sent, long trip) {
        json.put("offset", serverTime - sent).put("slack", trip).put("mark", serverTime).put("contact", serverTime);
    }

    /** True if a time is worth storing: access has ended since the stored time, or a minute has passed. */
    boolean isNews(long now, Collection<Access> decided) throws ShopException {
        if (offset() == null || now <= mark()) return false;
        boolean isNews = now - mark() >= 60_000;
        for (Access access : decided) {
            long end = access.isGranted() || access.getUntil() == null ? 0 : access.getUntil().toEpochMilli();
            isNews |= mark() < end && end <= now;
        }
        return isNews;
    }

    /** Remembers a time that has decided something. */
    void passed(long now) throws ShopException { json.put("mark", Math.max(mark(), now)); }
}
