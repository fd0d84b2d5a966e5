package entitlementsync;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import entitlementsync.Shop.EarlierPurchases;
import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Signature;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.Test;

public class GrantTest {
    /** A key pair that can sign statements. */
    private static final class Signer {
        private final KeyPair keys;

        Signer() throws Exception {
            keys = KeyPairGenerator.getInstance("Ed25519").generateKeyPair();
        }

        String publicKey() {
            byte[] encoded = keys.getPublic().getEncoded();
            return encoded(Arrays.copyOfRange(encoded, encoded.length - 32, encoded.length));
        }

        String sign(JsonObject header, JsonObject body) throws Exception {
            String signed = encoded(Json.bytes(header)) + "." + encoded(Json.bytes(body));
            Signature signature = Signature.getInstance("Ed25519");
            signature.initSign(keys.getPrivate());
            signature.update(signed.getBytes(StandardCharsets.US_ASCII));
            return signed + "." + encoded(signature.sign());
        }
    }

    private static String encoded(byte[] bytes) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
    }

    private static JsonObject decoded(String part) throws Exception {
        return Json.object(Base64.getUrlDecoder().decode(part), ShopException.Kind.OTHER);
    }

    private final Signer root = new Signer();
    private final Signer key = new Signer();
    private final JsonObject ann = new JsonObject().put("name", "ann").put("incarnation", "i1");
    private final String pseudonym = sha256("entitlement-grant+jwt\nhttps://shop.test\ni1\nann");

    public GrantTest() throws Exception {}

    private static String sha256(String text) throws Exception {
        return String.format("%064x", new java.math.BigInteger(1, java.security.MessageDigest.getInstance("SHA-256")
            .digest(text.getBytes(StandardCharsets.UTF_8))));
    }

    private JsonObject keyHeader() {
        return new JsonObject().put("alg", "EdDSA").put("typ", "entitlement-key+jwt");
    }

    private JsonObject keyBody() {
        return new JsonObject().put("iss", "https://shop.test").put("x", key.publicKey()).put("iat", 1_000L)
            .put("exp", 9_000L);
    }

    private JsonObject header() throws Exception {
        return new JsonObject().put("alg", "EdDSA").put("typ", "entitlement-grant+jwt").put("kid", "k")
            .put("key", root.sign(keyHeader(), keyBody()));
    }

    private JsonObject body() {
        return new JsonObject().put("iss", "https://shop.test").put("sub", pseudonym).put("dev", "d1")
            .put("env", "production").put("iat", 2_000L).put("exp", 3_000L)
            .put("entitlements", new JsonObject().put("owl", new JsonObject().put("until", null)));
    }

    /** A device with the account of the grants. */
    private State device() throws ShopException {
        State state = new State(null);
        state.json.put("account", ann).put("device", "d1");
        return state;
    }

    private Grant verified(String text) throws ShopException {
        return Grant.verified(text, Trust.signedBy(root.publicKey()), device(), "production");
    }

    @Test
    public void acceptsAGrantAndUnknownMembers() throws Exception {
        Grant grant = verified(key.sign(header().put("later", 1L), body().put("later", new JsonObject())));
        assertEquals(2_000_000, grant.issued);
        assertEquals(3_000_000, grant.expires);
        assertNull(grant.entitlements.object("owl").optionalTime("until"));
        assertTrue(grant.isCurrent(2_000_000 - 300_000) && !grant.isCurrent(2_000_000 - 300_001));
        assertTrue(grant.isCurrent(2_999_999) && !grant.isCurrent(3_000_000));
    }

    @Test
    public void refusesAGrantThatWasTamperedWithInManyWays() throws Exception {
        String good = key.sign(header(), body());
        String[] parts = good.split("\\.");
        String keyStatement = header().text("key");
        String[] keyParts = keyStatement.split("\\.");
        Signer rogue = new Signer();
        JsonObject entitled = body();
        entitled.object("entitlements").put("nights", new JsonObject().put("until", null));
        Map<String, String> tampered = new LinkedHashMap<>();
        // What is signed was edited.
        tampered.put("signature: an entitlement is added",
            parts[0] + "." + encoded(Json.bytes(entitled)) + "." + parts[2]);
        tampered.put("signature: the expiry is later",
            parts[0] + "." + encoded(Json.bytes(body().put("exp", 8_000L))) + "." + parts[2]);
        tampered.put("signature: the header is edited",
            encoded(Json.bytes(header().put("kid", "other"))) + "." + parts[1] + "." + parts[2]);
        byte[] flipped = Base64.getUrlDecoder().decode(parts[2]);
        flipped[0] ^= 1;
        tampered.put("signature: a bit of the signature is flipped",
            parts[0] + "." + parts[1] + "." + encoded(flipped));
        tampered.put("signature: the signature is zero", parts[0] + "." + parts[1] + "." + encoded(new byte[64]));
        tampered.put("signature: the signature is short", parts[0] + "." + parts[1] + "." + encoded(new byte[63]));
        tampered.put("signature: another key has signed", rogue.sign(header(), body()));
        tampered.put("signature: the root has signed the grant itself", root.sign(header(), body()));
        // The chain was replaced.
        tampered.put("root: another root has signed the key", rogue.sign(
            header().put("key", rogue.sign(keyHeader(), keyBody().put("x", rogue.publicKey()))), body()));
        tampered.put("root: the key in the statement is replaced", rogue.sign(header().put("key", keyParts[0] + "."
            + encoded(Json.bytes(keyBody().put("x", rogue.publicKey()))) + "." + keyParts[2]), body()));
        tampered.put("root: the server's key has signed its own statement",
            key.sign(header().put("key", key.sign(keyHeader(), keyBody())), body()));
        tampered.put("type: the grant is its own statement about the key", key.sign(header().put("key", good), body()));
        tampered.put("format: the statement about the key is missing",
            key.sign(new JsonObject().put("alg", "EdDSA").put("typ", "entitlement-grant+jwt"), body()));
        // Valid signatures under other rules.
        tampered.put("algorithm: none", encoded(Json.bytes(header().put("alg", "none"))) + "." + parts[1] + ".");
        tampered.put("algorithm: HS256", key.sign(header().put("alg", "HS256"), body()));
        tampered.put("type: an access token", key.sign(header().put("typ", "JWT"), body()));
        tampered.put("type: of the statement about the key",
            key.sign(header().put("key", root.sign(keyHeader().put("typ", "JWT"), keyBody())), body()));
        tampered.put("format: a critical parameter",
            key.sign(header().put("crit", Collections.singletonList("b")), body()));
        // Another use.
        tampered.put("account: of another account", key.sign(header(), body().put("sub", sha256("bob"))));
        tampered.put("device: of another device", key.sign(header(), body().put("dev", "d2")));
        tampered.put("environment: of the sandbox", key.sign(header(), body().put("env", "sandbox")));
        tampered.put("key: of another server", key.sign(header().put("key",
            root.sign(keyHeader(), keyBody().put("iss", "https://other.test"))), body()));
        tampered.put("key: issued before the key", key.sign(header(), body().put("iat", 999L)));
        tampered.put("key: outlives the key", key.sign(header(), body().put("exp", 9_001L)));
        tampered.put("key: expires before its signature", key.sign(header(), body().put("exp", 2_000L)));
        // Other forms.
        String repeated = Json.text(body()).replaceFirst("\\{", "{\"exp\":8000,");
        tampered.put("format: a repeated member",
            parts[0] + "." + encoded(repeated.getBytes(StandardCharsets.UTF_8)) + "." + parts[2]);
        tampered.put("format: an expiry as text", key.sign(header(), body().put("exp", "3000")));
        tampered.put("format: an expiry out of range", key.sign(header(), body().put("exp", Long.MAX_VALUE)));
        tampered.put("format: no entitlements", key.sign(header(), body().put("entitlements", null)));
        tampered.put("format: two segments", parts[0] + "." + parts[1]);
        tampered.put("format: four segments", good + ".");
        tampered.put("format: padding", good + "==");
        tampered.put("format: white space", good + "\n");
        tampered.put("format: empty", "");
        tampered.put("size: too long", good + String.join("", Collections.nCopies(65_536, "A")));
        assertTrue(tampered.size() >= 20);
        for (Map.Entry<String, String> each : tampered.entrySet()) {
            ShopException refused = assertThrows(
                each.getKey(), ShopException.class, () -> verified(each.getValue()));
            String expected = each.getKey().substring(0, each.getKey().indexOf(':'));
            // A signature that does not fit the algorithm is refused by one check or the other.
            if (each.getKey().equals("algorithm: none")) continue;
            assertTrue(
                each.getKey() + " is refused by " + refused.getMessage(),
                refused.getMessage().startsWith("other: " + expected + ":"));
        }
    }

    @Test
    public void refusesEveryFlippedBitOfAServersGrant() throws Exception {
        try (TestServer server = TestServer.startSigned(); TestDevice phone = new TestDevice(server, "phone")) {
            phone.shop.signUp("ann", "correct horse", EarlierPurchases.ADOPT);
            State state = phone.shop.store.state();
            Trust trust = Trust.signedBy(new Signer().publicKey(), server.root);
            Grant.verified(state.grant(), trust, state, "production");
            String grant = state.grant();
            for (int i = 0; i < grant.length(); i++) {
                char[] text = grant.toCharArray();
                text[i] ^= 1 << (i % 7);
                assertThrows(
                    "character " + i, ShopException.class,
                    () -> Grant.verified(new String(text), trust, state, "production"));
            }
            assertThrows(ShopException.class, () -> Grant.verified(
                grant, Trust.signedBy(new Signer().publicKey()), state, "production"));
            JsonObject body = decoded(state.grant().split("\\.")[1]);
            assertEquals(state.device(), body.text("dev"));
        }
    }

    @Test
    public void refusesMalformedRoots() {
        String good = root.publicKey();
        String[] malformed = {"", "short", good + "=", good.substring(1), good + "A", good.replaceFirst(".", "+")};
        for (String text : malformed) assertThrows(IllegalArgumentException.class, () -> Trust.signedBy(text));
        assertThrows(IllegalArgumentException.class, Trust::signedBy);
    }

    @Test
    public void aPlatformWithoutTheAlgorithmRefuses() throws Exception {
        String good = key.sign(header(), body());
        Trust trust = Trust.signedBy((signature, message, key) -> {
            throw new java.security.NoSuchAlgorithmException("Ed25519");
        }, root.publicKey());
        assertThrows(ShopException.class, () -> Grant.verified(good, trust, device(), "production"));
    }
}
