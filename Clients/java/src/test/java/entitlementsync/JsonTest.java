package entitlementsync;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;

import entitlementsync.ShopException.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import org.junit.Test;

public class JsonTest {
    private static JsonObject read(String text) throws ShopException {
        return Json.object(text.getBytes(StandardCharsets.UTF_8), Kind.DAMAGED);
    }

    @Test
    public void readsEveryKindOfValue() throws Exception {
        JsonObject object = read(
            " {\"a\":[1,-2,0.5,1e2,true,false,null,\"x\\n\\u00e9\\ud83e\\udd89/\"],\"b\":{\"c\":{}},\"\":\"\"} ");
        assertEquals(
            Arrays.asList(1L, -2L, 0.5, 100.0, true, false, null, "x\né🦉/"), object.members().get("a"));
        assertEquals(0, object.object("b").object("c").members().size());
        assertEquals("", object.text(""));
        assertEquals(Long.MAX_VALUE, read("{\"a\":9223372036854775807}").number("a"));
        assertEquals(9223372036854775808.0, read("{\"a\":9223372036854775808}").members().get("a"));
    }

    @Test
    public void writesWhatItReads() throws Exception {
        String text = "{\"a\":[1,0.5,true,null,\"\\u0000\\\"\\\\é\\ud83e\\udd89\"],\"b\":{},\"c\":[]}";
        assertEquals(text, Json.text(read(text)));
    }

    @Test
    public void refusesMalformedText() {
        String[] malformed = {
            "", "{", "}", "[]", "1", "null", "\"a\"", "{}x", "{} {}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}",
            "{\"a\":1 \"b\":2}", "{a:1}", "{'a':1}", "{\"a\":[1,]}", "{\"a\":[1 2]}", "{\"a\":[}", "{\"a\":01}",
            "{\"a\":+1}", "{\"a\":.5}", "{\"a\":1.}", "{\"a\":1e}", "{\"a\":-}", "{\"a\":NaN}", "{\"a\":Infinity}",
            "{\"a\":tru}", "{\"a\":\"}", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12\"}", "{\"a\":\"\\u+123\"}",
            "{\"a\":\"\\ud83e\"}", "{\"a\":\"\\udd89\\ud83e\"}", "{\"a\":1}\u0000", "\ufeff{}", "{\"a\":1/**/}",
        };
        for (String text : malformed) assertThrows(text, ShopException.class, () -> read(text));
    }

    @Test
    public void refusesRepeatedMembersAlsoIfOneIsEscaped() {
        assertThrows(ShopException.class, () -> read("{\"a\":1,\"a\":1}"));
        assertThrows(ShopException.class, () -> read("{\"a\":1,\"\\u0061\":1}"));
        assertThrows(ShopException.class, () -> read("{\"b\":[{\"a\":null,\"a\":null}]}"));
    }

    @Test
    public void refusesBytesThatAreNotUTF8() {
        byte[] text = "{\"a\":\"xy\"}".getBytes(StandardCharsets.UTF_8);
        text[6] = (byte) 0xc3;
        assertThrows(ShopException.class, () -> Json.object(text, Kind.DAMAGED));
    }

    @Test
    public void refusesMoreThan64Levels() throws Exception {
        String open = String.join("", Collections.nCopies(63, "["));
        String close = String.join("", Collections.nCopies(63, "]"));
        read("{\"a\":" + open + close + "}");
        assertThrows(ShopException.class, () -> read("{\"a\":[[" + open + close + "]]}"));
        String endless = "{\"a\":" + String.join("", Collections.nCopies(100_000, "["));
        assertThrows(ShopException.class, () -> read(endless));
    }

    @Test
    public void refusesMembersOfAnotherType() throws Exception {
        JsonObject object = read("{\"text\":\"a\",\"number\":1.5,\"none\":null,\"list\":[1]}");
        assertThrows(ShopException.class, () -> object.number("text"));
        assertThrows(ShopException.class, () -> object.number("number"));
        assertThrows(ShopException.class, () -> object.text("none"));
        assertThrows(ShopException.class, () -> object.text("absent"));
        assertThrows(ShopException.class, () -> object.objects("list"));
        assertThrows(ShopException.class, () -> object.optionalTime("text"));
        assertNull(object.optionalText("none"));
    }
}
