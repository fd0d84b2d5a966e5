package entitlementsync;

import java.time.Instant;

/**
 * An item of {@code POST /v1/transactions}: a report of the app, or evidence that a store has signed. Immutable.
 *
 * <pre>{@code
 * shop.report(Item.purchase("owls.3months", "order-17").quantity(2));
 * }</pre>
 */
public final class Item {
    private final JsonObject json;

    Item(JsonObject json) { this.json = json; }

    /**
     * An item of any kind.
     *
     * @param kind the kind, for example {@code app-store-transaction}
     */
    public static Item ofKind(String kind) { return new Item(new JsonObject().put("kind", kind)); }

    /**
     * A purchase that a seller has confirmed.
     *
     * @param transaction the seller's id, by which repetitions count once
     */
    public static Item purchase(String product, String transaction) {
        return ofKind("reported").with("product", product).with("transaction", transaction);
    }

    /** A refund of a purchase that was reported. */
    public static Item refund(String transaction) { return ofKind("refunded").with("transaction", transaction); }

    /** The end of a refund: the purchase counts again. */
    public static Item reinstatement(String transaction) {
        return ofKind("reinstated").with("transaction", transaction);
    }

    /** The flag of a product that older versions of the app have kept as a setting. */
    public static Item flag(String product, boolean set) {
        return ofKind("flag").with("product", product).with("set", set);
    }

    /** A request for approval, for example by a parent. */
    public static Item pending(String product) { return ofKind("pending").with("product", product); }

    /** The end of a request for approval without a purchase. */
    public static Item withdrawn(String product) { return ofKind("withdrawn").with("product", product); }

    /**
     * The purchase data of Google Play and its signature, as {@code Purchase.getOriginalJson()} and
     * {@code Purchase.getSignature()} return them.
     */
    public static Item googlePlay(String data, String signature) {
        return ofKind("google-play").with("data", data).with("signature", signature);
    }

    static Item spend(String entitlement, String id) {
        return ofKind("spend").with("entitlement", entitlement).with("id", id);
    }

    /** This item with the date of the purchase or the refund. Without one, the time of the report counts. */
    public Item date(Instant date) { return with("date", date.toString()); }

    /** This item with a quantity of 1 to 10,000. */
    public Item quantity(long quantity) { return with("quantity", quantity); }

    /** This item with the end of the period, as the seller states it. */
    public Item expires(Instant end) { return with("expires", end.toString()); }

    /** This item with the first transaction of the subscription that this purchase renews. */
    public Item original(String transaction) { return with("original", transaction); }

    /** This item with the reason of a refund. */
    public Item reason(String reason) { return with("reason", reason); }

    /** This item with the store that sold the product; by default {@code reported}. */
    public Item store(String store) { return with("store", store); }

    /** This item with the environment of the transaction; by default {@code production}. */
    public Item environment(String environment) { return with("environment", environment); }

    /**
     * This item with another member, for kinds of items that this version does not know.
     *
     * @param value a text, a whole number or a boolean
     * @throws IllegalArgumentException for another value, and for a text that is not valid Unicode
     */
    public Item with(String member, Object value) {
        boolean isInteger = value instanceof Integer || value instanceof Short || value instanceof Byte;
        Object known = isInteger ? Long.valueOf(((Number) value).longValue()) : value;
        if (known instanceof String ? Json.isText((String) known) : known instanceof Long || known instanceof Boolean) {
            return new Item(json.copy().put(member, known));
        }
        throw new IllegalArgumentException(member + " must be a valid text, a whole number or a boolean, not " + value);
    }

    JsonObject json() { return json; }

    /** The item as JSON. */
    @Override public String toString() { return Json.text(json); }
}
