package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.time.Instant;
import java.util.*;

/** The items that wait for the server, in the order of their reports. A mutable copy of what is stored. */
final class Outbox {
    static final String NAME = "outbox.json";
    /** The largest number of items that wait. */
    static final int MAXIMUM_COUNT = 1_000;
    /** The number of rejected items that are kept for a listener, or for a caller that waits in another process. */
    private static final int MAXIMUM_REJECTED = 100;
    /** The most items in one request. The server accepts 100, and 2 MiB. */
    static final int BATCH_COUNT = 32;
    private static final int BATCH_LENGTH = 1 << 20;

    private final JsonObject json;
    /**
     * The items that wait, and those that the server has rejected. Members: {@code id}, {@code account} (null for
     * none), {@code item} (null after a listener was told), {@code date} (the time of the report, for a purchase
     * without a date) and {@code problem} (the server's answer; null while the item waits).
     */
    final List<JsonObject> entries;

    /** Decodes a stored outbox; null for the first one. */
    Outbox(byte[] bytes) throws ShopException {
        json = State.stored(bytes, new JsonObject(Kind.DAMAGED).put("next", 1L).put("entries", new ArrayList<>()));
        entries = json.objects("entries");
    }

    byte[] encoded() { return Json.bytes(json.put("entries", entries)); }

    /** Adds an item, unless the same item waits already. Returns its id. */
    long add(JsonObject account, Item item, Instant date) throws ShopException {
        List<JsonObject> waiting = waiting(account);
        for (JsonObject entry : waiting) if (entry.object("item").equals(item.json())) return entry.number("id");
        if (entries.size() - rejected().size() >= MAXIMUM_COUNT) {
            throw new ShopException(Kind.OUTBOX_FULL, MAXIMUM_COUNT + " items wait: connect, then repeat the call");
        }
        long id = json.number("next");
        entries.add(new JsonObject(Kind.DAMAGED).put("id", id).put("account", account).put("item", item.json())
            .put("date", date == null ? null : date.toString()).put("problem", null));
        json.put("next", id + 1);
        return id;
    }

    /** The items of an account that wait. */
    List<JsonObject> waiting(JsonObject account) throws ShopException {
        List<JsonObject> waiting = new ArrayList<>(entries);
        waiting.removeAll(rejected());
        waiting.removeIf(entry -> !Objects.equals(entry.members().get("account"), account));
        return waiting;
    }

    /** The items that the server has rejected. */
    private List<JsonObject> rejected() {
        List<JsonObject> rejected = new ArrayList<>(entries);
        rejected.removeIf(entry -> entry.members().get("problem") == null);
        return rejected;
    }

    /** Returns the rejected items that no listener knows about, without those whose callers wait. */
    List<JsonObject> takeRejected(Set<Long> awaited) throws ShopException {
        List<JsonObject> taken = new ArrayList<>();
        for (JsonObject entry : rejected()) {
            if (entry.optionalObject("item") == null || awaited.contains(entry.number("id"))) continue;
            taken.add(entry.copy());
            // A caller in another process may still wait for the problem.
            entry.put("item", null);
        }
        return taken;
    }

    /** The first items of an account that wait, at most {@code size}, and as many as one request takes. */
    List<JsonObject> batch(JsonObject account, int size) throws ShopException {
        List<JsonObject> batch = new ArrayList<>();
        int length = 0;
        for (JsonObject entry : waiting(account)) {
            length += Json.text(entry).length();
            if (batch.size() == size || (length > BATCH_LENGTH && !batch.isEmpty())) break;
            batch.add(entry);
        }
        return batch;
    }

    /** The item of an entry as it is sent. */
    static JsonObject content(JsonObject entry) throws ShopException {
        JsonObject item = entry.object("item");
        return entry.optionalText("date") == null ? item : item.copy().put("date", entry.text("date"));
    }

    /** The entry with an id; null if it is not there. */
    JsonObject entry(long id) throws ShopException {
        for (JsonObject entry : entries) if (entry.number("id") == id) return entry;
        return null;
    }

    /** Removes an item that is recorded, or keeps the problem of one that is rejected, for a listener. */
    void settle(long id, JsonObject problem) throws ShopException {
        JsonObject entry = entry(id);
        if (entry == null) return;
        entry.put("problem", problem);
        if (problem == null) entries.remove(entry);
        if (rejected().size() > MAXIMUM_REJECTED) entries.remove(rejected().get(0));
    }

    /** Gives the items that were reported without an account to an account. */
    void adopt(JsonObject account) throws ShopException {
        for (JsonObject entry : waiting(null)) entry.put("account", account);
    }
}
