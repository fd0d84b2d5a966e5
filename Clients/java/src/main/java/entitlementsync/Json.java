package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.nio.ByteBuffer;
import java.nio.charset.*;
import java.util.*;

/**
 * JSON (RFC 8259). The reader refuses repeated members, invalid UTF-8 and more than 64 levels.
 *
 * <p>Values are {@link JsonObject}, {@link List}, {@link String}, {@link Long} for integers of 64 bits, {@link Double}
 * for other numbers, {@link Boolean} and null.
 */
final class Json {
    private static final int MAXIMUM_DEPTH = 64;

    private final String text;
    private int position;

    private final Kind kind;

    private Json(String text, Kind kind) {
        this.text = text;
        this.kind = kind;
    }

    /**
     * Reads an object.
     *
     * @param kind the kind of the error for malformed text, and for members that are missing or of another type
     */
    static JsonObject object(byte[] bytes, Kind kind) throws ShopException {
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
            Json json = new Json(text, kind);
            Object value = json.value(0);
            json.skipSpace();
            if (json.position < text.length() || !(value instanceof JsonObject)) throw json.failure("one object");
            return (JsonObject) value;
        } catch (CharacterCodingException error) { throw new ShopException(kind, "format: the text is not UTF-8"); }
    }

    static byte[] bytes(JsonObject object) { return text(object).getBytes(StandardCharsets.UTF_8); }

    private ShopException failure(String expected) {
        return new ShopException(kind, "format: " + expected + " is expected at character " + position);
    }

    private char next() throws ShopException {
        if (position >= text.length()) throw failure("more");
        return text.charAt(position++);
    }

    private void skipSpace() {
        while (position < text.length() && " \t\r\n".indexOf(text.charAt(position)) >= 0) position++;
    }

    private boolean skip(String expected) {
        skipSpace();
        if (!text.startsWith(expected, position)) return false;
        position += expected.length();
        return true;
    }

    private Object value(int depth) throws ShopException {
        if (depth > MAXIMUM_DEPTH) throw failure("at most " + MAXIMUM_DEPTH + " levels");
        if (skip("{")) return members(depth);
        if (skip("[")) return elements(depth);
        if (skip("\"")) return string();
        if (skip("true")) return true;
        if (skip("false")) return false;
        if (skip("null")) return null;
        return number();
    }

    private JsonObject members(int depth) throws ShopException {
        JsonObject object = new JsonObject(kind);
        if (skip("}")) return object;
        do {
            if (!skip("\"")) throw failure("a member");
            String name = string();
            if (object.has(name)) throw failure("each member once, but not again " + name);
            if (!skip(":")) throw failure("a colon");
            object.put(name, value(depth + 1));
        } while (skip(","));
        if (!skip("}")) throw failure("the end of an object");
        return object;
    }

    private List<Object> elements(int depth) throws ShopException {
        List<Object> list = new ArrayList<>();
        if (skip("]")) return list;
        do list.add(value(depth + 1)); while (skip(","));
        if (!skip("]")) throw failure("the end of an array");
        return list;
    }

    private String string() throws ShopException {
        StringBuilder out = new StringBuilder();
        for (char c = next(); c != '"'; c = next()) {
            if (c < ' ') throw failure("an escaped control character");
            out.append(c == '\\' ? escaped() : c);
        }
        if (!isText(out)) throw failure("a pair of surrogates");
        return out.toString();
    }

    /** False for a surrogate without its pair, which has no form in UTF-8. */
    static boolean isText(CharSequence text) { return StandardCharsets.UTF_8.newEncoder().canEncode(text); }

    private char escaped() throws ShopException {
        char c = next();
        int known = "\"\\/bfnrt".indexOf(c);
        if (known >= 0) return "\"\\/\b\f\n\r\t".charAt(known);
        if (c != 'u') throw failure("an escape");
        String digits = text.substring(position, Math.min(position + 4, text.length()));
        if (!digits.matches("[0-9A-Fa-f]{4}")) throw failure("four hexadecimal digits");
        position += 4;
        return (char) Integer.parseInt(digits, 16);
    }

    private Object number() throws ShopException {
        int start = position;
        while (position < text.length() && "+-.eE0123456789".indexOf(text.charAt(position)) >= 0) position++;
        String number = text.substring(start, position);
        if (!number.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) throw failure("a value");
        try {
            return Long.parseLong(number);
        } catch (NumberFormatException notAnInteger) { return Double.parseDouble(number); }
    }

    static String text(Object value) {
        if (value instanceof JsonObject) {
            StringJoiner members = new StringJoiner(",", "{", "}");
            ((JsonObject) value).members().forEach((name, member) -> members.add(quoted(name) + ":" + text(member)));
            return members.toString();
        }
        if (value instanceof List) {
            StringJoiner elements = new StringJoiner(",", "[", "]");
            for (Object element : (List<?>) value) elements.add(text(element));
            return elements.toString();
        }
        return value instanceof String ? quoted((String) value) : String.valueOf(value);
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ' || Character.isSurrogate(c)) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }
}
