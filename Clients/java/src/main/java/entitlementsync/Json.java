package entitlementsync;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

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

    private Json(String text) {
        this.text = text;
    }

    /** Malformed JSON, or a member that is missing or of another type. */
    static final class FormatException extends Exception {
        private static final long serialVersionUID = 1;

        FormatException(String message) {
            super(message);
        }
    }

    static JsonObject object(byte[] bytes) throws FormatException {
        Json json;
        try {
            json = new Json(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
        } catch (CharacterCodingException error) {
            throw new FormatException("the text is not UTF-8");
        }
        Object value = json.value(0);
        json.skipSpace();
        if (json.position < json.text.length()) throw json.failure("nothing more");
        if (!(value instanceof JsonObject)) throw new FormatException("an object is expected");
        return (JsonObject) value;
    }

    static byte[] bytes(JsonObject object) {
        return text(object).getBytes(StandardCharsets.UTF_8);
    }

    static String text(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private FormatException failure(String expected) {
        return new FormatException(expected + " is expected at character " + position);
    }

    private char next() throws FormatException {
        if (position >= text.length()) throw failure("more");
        return text.charAt(position++);
    }

    private void skipSpace() {
        while (position < text.length() && " \t\r\n".indexOf(text.charAt(position)) >= 0) position++;
    }

    private boolean skip(char expected) {
        skipSpace();
        if (position >= text.length() || text.charAt(position) != expected) return false;
        position++;
        return true;
    }

    private Object value(int depth) throws FormatException {
        if (depth > MAXIMUM_DEPTH) throw new FormatException("there are more than " + MAXIMUM_DEPTH + " levels");
        if (skip('{')) return members(depth);
        if (skip('[')) return elements(depth);
        if (skip('"')) return string();
        if (word("true")) return true;
        if (word("false")) return false;
        if (word("null")) return null;
        return number();
    }

    private boolean word(String word) {
        if (!text.startsWith(word, position)) return false;
        position += word.length();
        return true;
    }

    private JsonObject members(int depth) throws FormatException {
        JsonObject object = new JsonObject();
        if (skip('}')) return object;
        do {
            if (!skip('"')) throw failure("a member");
            String name = string();
            if (object.has(name)) throw new FormatException("the member " + name + " is repeated");
            if (!skip(':')) throw failure("a colon");
            object.put(name, value(depth + 1));
        } while (skip(','));
        if (!skip('}')) throw failure("the end of an object");
        return object;
    }

    private List<Object> elements(int depth) throws FormatException {
        List<Object> list = new ArrayList<>();
        if (skip(']')) return list;
        do list.add(value(depth + 1)); while (skip(','));
        if (!skip(']')) throw failure("the end of an array");
        return list;
    }

    private String string() throws FormatException {
        StringBuilder out = new StringBuilder();
        for (char c = next(); c != '"'; c = next()) {
            if (c < ' ') throw failure("an escaped control character");
            out.append(c == '\\' ? escaped() : c);
        }
        for (int i = 0; i < out.length(); i++) {
            if (!Character.isSurrogate(out.charAt(i))) continue;
            boolean isPair = i + 1 < out.length() && Character.isSurrogatePair(out.charAt(i), out.charAt(i + 1));
            if (!isPair) throw failure("a pair of surrogates");
            i++;
        }
        return out.toString();
    }

    private char escaped() throws FormatException {
        char c = next();
        int known = "\"\\/bfnrt".indexOf(c);
        if (known >= 0) return "\"\\/\b\f\n\r\t".charAt(known);
        if (c != 'u') throw failure("an escape");
        int code = 0;
        for (int i = 0; i < 4; i++) {
            char digit = next();
            int value = digit < 128 ? Character.digit(digit, 16) : -1;
            if (value < 0) throw failure("a hexadecimal digit");
            code = code * 16 + value;
        }
        return (char) code;
    }

    private Object number() throws FormatException {
        int start = position;
        while (position < text.length() && "+-.eE0123456789".indexOf(text.charAt(position)) >= 0) position++;
        String number = text.substring(start, position);
        if (!number.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) throw failure("a value");
        try {
            return Long.parseLong(number);
        } catch (NumberFormatException notAnInteger) {
            return Double.parseDouble(number);
        }
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof JsonObject) {
            String separator = "{";
            for (Map.Entry<String, Object> member : ((JsonObject) value).members().entrySet()) {
                out.append(separator);
                write(member.getKey(), out);
                out.append(':');
                write(member.getValue(), out);
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            out.append('[');
            String separator = "";
            for (Object element : (List<?>) value) {
                out.append(separator);
                write(element, out);
                separator = ",";
            }
            out.append(']');
        } else if (value instanceof String) {
            write((String) value, out);
        } else {
            out.append(value);
        }
    }

    private static void write(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ' || Character.isSurrogate(c)) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        out.append('"');
    }
}
