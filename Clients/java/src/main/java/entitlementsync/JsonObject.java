package entitlementsync;

import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An object of JSON. The typed getters throw if a member is of another type; those for optional members return null. */
final class JsonObject {
    private final Map<String, Object> members = new LinkedHashMap<>();

    Map<String, Object> members() {
        return members;
    }

    JsonObject copy() {
        JsonObject copy = new JsonObject();
        copy.members.putAll(members);
        return copy;
    }

    JsonObject put(String name, Object value) {
        members.put(name, value);
        return this;
    }

    boolean has(String name) {
        return members.containsKey(name);
    }

    private <Value> Value optional(String name, Class<Value> type) throws Json.FormatException {
        Object value = members.get(name);
        if (value == null || type.isInstance(value)) return type.cast(value);
        throw new Json.FormatException(name + " must be a " + type.getSimpleName());
    }

    private <Value> Value required(String name, Class<Value> type) throws Json.FormatException {
        Value value = optional(name, type);
        if (value == null) throw new Json.FormatException("the member " + name + " is missing");
        return value;
    }

    String text(String name) throws Json.FormatException {
        return required(name, String.class);
    }

    String optionalText(String name) throws Json.FormatException {
        return optional(name, String.class);
    }

    long number(String name) throws Json.FormatException {
        return required(name, Long.class);
    }

    Long optionalNumber(String name) throws Json.FormatException {
        return optional(name, Long.class);
    }

    boolean flag(String name) throws Json.FormatException {
        return required(name, Boolean.class);
    }

    JsonObject object(String name) throws Json.FormatException {
        return required(name, JsonObject.class);
    }

    JsonObject optionalObject(String name) throws Json.FormatException {
        return optional(name, JsonObject.class);
    }

    List<JsonObject> objects(String name) throws Json.FormatException {
        List<JsonObject> objects = new ArrayList<>();
        for (Object element : required(name, List.class)) {
            if (!(element instanceof JsonObject)) throw new Json.FormatException(name + " must be a list of objects");
            objects.add((JsonObject) element);
        }
        return objects;
    }

    Instant optionalTime(String name) throws Json.FormatException {
        String text = optionalText(name);
        try {
            return text == null ? null : Instant.parse(text);
        } catch (DateTimeParseException error) {
            throw new Json.FormatException(name + " must be a time in UTC (RFC 3339), not " + text);
        }
    }
}
