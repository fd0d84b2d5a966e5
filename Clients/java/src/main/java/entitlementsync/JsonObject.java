package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.*;

/**
 * An object of JSON. The typed getters throw if a member is of another type. Those for optional members return null if
 * it is missing.
 */
final class JsonObject {
    private final Map<String, Object> members = new LinkedHashMap<>();
    private final Kind kind;

    JsonObject() { this(Kind.OTHER); }

    /** Creates an object whose getters throw errors of a kind. */
    JsonObject(Kind kind) { this.kind = kind; }

    private ShopException failure(String problem) { return new ShopException(kind, "format: " + problem); }

    Map<String, Object> members() { return members; }

    JsonObject copy() {
        JsonObject copy = new JsonObject(kind);
        copy.members.putAll(members);
        return copy;
    }

    JsonObject put(String name, Object value) {
        members.put(name, value);
        return this;
    }

    @Override public boolean equals(Object other) {
        return other instanceof JsonObject && members.equals(((JsonObject) other).members);
    }

    @Override public int hashCode() { return members.hashCode(); }

    boolean has(String name) { return members.containsKey(name); }

    private <Value> Value optional(String name, Class<Value> type) throws ShopException {
        Object value = members.get(name);
        if (value == null || type.isInstance(value)) return type.cast(value);
        throw failure(name + " must be a " + type.getSimpleName());
    }

    private <Value> Value required(String name, Class<Value> type) throws ShopException {
        Value value = optional(name, type);
        if (value == null) throw failure("the member " + name + " is missing");
        return value;
    }

    String text(String name) throws ShopException { return required(name, String.class); }

    String optionalText(String name) throws ShopException { return optional(name, String.class); }

    long number(String name) throws ShopException { return required(name, Long.class); }

    Long optionalNumber(String name) throws ShopException { return optional(name, Long.class); }

    boolean flag(String name) throws ShopException { return required(name, Boolean.class); }

    JsonObject object(String name) throws ShopException { return required(name, JsonObject.class); }

    JsonObject optionalObject(String name) throws ShopException { return optional(name, JsonObject.class); }

    List<JsonObject> objects(String name) throws ShopException {
        List<JsonObject> objects = new ArrayList<>();
        for (Object element : required(name, List.class)) {
            if (!(element instanceof JsonObject)) throw failure(name + " must be a list of objects");
            objects.add((JsonObject) element);
        }
        return objects;
    }

    Instant optionalTime(String name) throws ShopException {
        String text = optionalText(name);
        try {
            return text == null ? null : Instant.parse(text);
        } catch (DateTimeParseException error) { throw failure(name + " must be a time in RFC 3339, not " + text); }
    }
}
