package entitlementsync;

import entitlementsync.ShopException.Kind;
import entitlementsync.State.Account;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** The items that wait for the server, in the order of their reports. A mutable copy of what is stored. */
final class Outbox {
    static final String NAME = "outbox.json";
    /** The largest number of items that wait. */
    static final int MAXIMUM_COUNT = 1_000;
    /** Servers before this version accept 32 items in one request, and 2 MiB. */
    static final int BATCH_COUNT = 32;
    private static final int BATCH_LENGTH = 1 << 20;

    /** An item that waits, or that the server has rejected. */
    static final class Entry {
        final long id;
        /** The account that was logged in; null for none. */
        final Account account;
        final Item item;
        /** The time of the report, which becomes the date of a purchase without one; null for none. */
        final String date;
        /** The problem that the server has answered; null while the item waits. */
        final JsonObject problem;

        Entry(long id, Account account, Item item, String date, JsonObject problem) {
            this.id = id;
            this.account = account;
            this.item = item;
            this.date = date;
            this.problem = problem;
        }

        /** The item as it is sent. */
        JsonObject content() {
            return date == null ? item.json() : item.date(Instant.parse(date)).json();
        }
    }

    final List<Entry> entries = new ArrayList<>();
    private long next = 1;

    static Outbox decoded(byte[] bytes) throws ShopException {
        Outbox outbox = new Outbox();
        if (bytes == null) return outbox;
        try {
            JsonObject json = Json.object(bytes);
            State.checkFormat(json);
            outbox.next = json.number("next");
            for (JsonObject entry : json.objects("entries")) {
                outbox.entries.add(new Entry(
                    entry.number("id"), Account.of(entry.optionalObject("account")), new Item(entry.object("item")),
                    entry.optionalText("date"), entry.optionalObject("problem")));
            }
            return outbox;
        } catch (Json.FormatException error) {
            throw new ShopException(Kind.DAMAGED, NAME + ": " + error.getMessage(), error);
        }
    }

    byte[] encoded() {
        List<JsonObject> list = new ArrayList<>();
        for (Entry entry : entries) {
            list.add(new JsonObject().put("id", entry.id).put("account", Account.json(entry.account))
                .put("item", entry.item.json()).put("date", entry.date).put("problem", entry.problem));
        }
        return Json.bytes(new JsonObject().put("format", 1L).put("next", next).put("entries", list));
    }

    /** Adds an item, unless the same item waits already. Returns its id. */
    long add(Account account, Item item, String date) throws ShopException {
        for (Entry entry : entries) {
            boolean isSame = entry.problem == null && Objects.equals(entry.account, account)
                && entry.item.toString().equals(item.toString());
            if (isSame) return entry.id;
        }
        if (entries.size() - rejected().size() >= MAXIMUM_COUNT) {
            throw new ShopException(Kind.FULL, MAXIMUM_COUNT + " items wait for the server");
        }
        entries.add(new Entry(next, account, item, date, null));
        return next++;
    }

    /** The items of an account that wait. */
    List<Entry> waiting(Account account) {
        List<Entry> waiting = new ArrayList<>();
        for (Entry entry : entries) {
            if (entry.problem == null && Objects.equals(entry.account, account)) waiting.add(entry);
        }
        return waiting;
    }

    /** The items that the server has rejected, and that no listener knows about. */
    List<Entry> rejected() {
        List<Entry> rejected = new ArrayList<>();
        for (Entry entry : entries) if (entry.problem != null) rejected.add(entry);
        return rejected;
    }

    /** Drops the oldest rejected items beyond a number. */
    void dropRejected(int maximum) {
        List<Entry> rejected = rejected();
        for (int i = 0; i < rejected.size() - maximum; i++) remove(rejected.get(i).id);
    }

    /** The first items of an account that wait, as many as one request takes. */
    List<Entry> batch(Account account) {
        List<Entry> batch = new ArrayList<>();
        int length = 0;
        for (Entry entry : waiting(account)) {
            length += entry.item.toString().length();
            if (batch.size() == BATCH_COUNT || (length > BATCH_LENGTH && !batch.isEmpty())) break;
            batch.add(entry);
        }
        return batch;
    }

    /** The number of units of an entitlement that are spent on this device, and not yet at the server. */
    long spends(Account account, String entitlement) {
        long count = 0;
        for (Entry entry : waiting(account)) {
            JsonObject item = entry.item.json();
            if ("spend".equals(item.members().get("kind")) && entitlement.equals(item.members().get("entitlement"))) {
                count++;
            }
        }
        return count;
    }

    /** Removes an entry and returns it; null if it is not there. */
    Entry remove(long id) {
        for (int i = 0; i < entries.size(); i++) if (entries.get(i).id == id) return entries.remove(i);
        return null;
    }

    /** Replaces an entry of the same id. Does nothing if it is not there. */
    void replace(Entry entry) {
        for (int i = 0; i < entries.size(); i++) if (entries.get(i).id == entry.id) entries.set(i, entry);
    }

    /** Gives the items that were reported without an account to an account. */
    void adopt(Account account) {
        entries.replaceAll(entry -> entry.account != null ? entry
            : new Entry(entry.id, account, entry.item, entry.date, entry.problem));
    }
}
