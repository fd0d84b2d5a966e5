package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.time.Instant;
import java.util.*;

/** The access of an account on one device, as its server has signed it: see Docs/Grants.md. */
final class Grant {
    /** The largest grant, in bytes. */
    static final int MAXIMUM_LENGTH = 65_536;
    private static final String TYPE = "entitlement-grant+jwt";
    private static final String KEY_TYPE = "entitlement-key+jwt";
    /** The amount by which the signature may be ahead of the trusted clock, in milliseconds. */
    private static final long TOLERANCE = 300_000;

    /** The error for a grant that is refused. It names the check that failed, as the other clients do. */
    static ShopException refused(String check, String reason) {
        return new ShopException(Kind.OTHER, check + ": " + reason);
    }

    /** The time of the signature and the expiry, in milliseconds since 1970 UTC. */
    final long issued, expires;
    /** The entitlements that are granted, each with the members {@code until} and {@code units}. */
    final JsonObject entitlements;

    private Grant(JsonObject body) throws ShopException {
        issued = milliseconds(body, "iat");
        expires = milliseconds(body, "exp");
        entitlements = body.object("entitlements");
    }

    /** True unless the grant has expired, or was signed in the future. */
    boolean isCurrent(long now) { return issued - TOLERANCE <= now && now < expires; }

    /** Verifies everything but the time, for the account and the device of a state. */
    static Grant verified(String text, Trust trust, State state, String environment) throws ShopException {
        if (text.length() > MAXIMUM_LENGTH) throw refused("size", "the grant is too long");
        Statement statement = new Statement(text, TYPE);
        Statement key = new Statement(statement.header.text("key"), KEY_TYPE);
        boolean isRooted = false;
        for (byte[] root : trust.roots) isRooted |= trust.isValid(key.signature, key.signed, root);
        if (!isRooted) throw refused("root", "no pinned root has signed the server's key");
        boolean isSigned = trust.isValid(statement.signature, statement.signed, decoded(key.body.text("x")));
        if (!isSigned) throw refused("signature", "the server's key has not signed the grant");
        JsonObject body = statement.body;
        Grant grant = new Grant(body);
        boolean isWithinKey = milliseconds(key.body, "iat") <= grant.issued && grant.issued < grant.expires
            && grant.expires <= milliseconds(key.body, "exp");
        if (!isWithinKey) throw refused("key", "the grant is not within the time of its key");
        String server = body.text("iss");
        if (!server.equals(key.body.text("iss"))) throw refused("key", "the server's key belongs to another server");
        boolean isOfAccount = body.text("sub").equals(pseudonym(server, state.account()));
        if (!isOfAccount) throw refused("account", "the grant is for another account");
        if (!body.text("dev").equals(state.device())) throw refused("device", "the grant is for another device");
        if (!body.text("env").equals(environment)) throw refused("environment", "the grant is for another one");
        return grant;
    }

    /** Decodes the public keys that an app pins, 32 bytes in base64url each. */
    static List<byte[]> roots(String[] keys) {
        if (keys.length == 0) throw new IllegalArgumentException("there is no root key");
        List<byte[]> roots = new ArrayList<>();
        for (String key : keys) {
            boolean isKey = key.matches("[A-Za-z0-9_-]{43}");
            if (!isKey) throw new IllegalArgumentException("a root key must be 32 bytes in base64url, not " + key);
            roots.add(Base64.getUrlDecoder().decode(key));
        }
        return roots;
    }

    private static long milliseconds(JsonObject object, String name) throws ShopException {
        long seconds = object.number(name);
        if (Math.abs(seconds) > 1L << 40) throw refused("format", name + " is out of range: " + seconds);
        return seconds * 1_000;
    }

    /** Decodes base64url without padding, in its canonical form only. */
    private static byte[] decoded(String text) throws ShopException {
        try {
            byte[] bytes = Base64.getUrlDecoder().decode(text);
            if (Base64.getUrlEncoder().withoutPadding().encodeToString(bytes).equals(text)) return bytes;
        } catch (IllegalArgumentException malformed) {
            // The same error as for another encoding of the bytes.
        }
        throw refused("format", "base64url without padding is expected");
    }

    private static String pseudonym(String server, JsonObject account) throws ShopException {
        try {
            String text = TYPE + "\n" + server + "\n" + account.text("incarnation") + "\n" + account.text("name");
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return String.format("%064x", new BigInteger(1, digest));
        } catch (NoSuchAlgorithmException impossible) { throw new AssertionError(impossible); }
    }

    /** A JSON Web Signature (RFC 7515) in compact form, whose signature is not verified yet. */
    private static final class Statement {
        final JsonObject header, body;
        final byte[] signed, signature;

        Statement(String text, String type) throws ShopException {
            String[] parts = text.split("\\.", -1);
            if (parts.length != 3) throw refused("format", "a statement has 3 segments, not " + parts.length);
            header = Json.object(decoded(parts[0]), Kind.OTHER);
            body = Json.object(decoded(parts[1]), Kind.OTHER);
            signature = decoded(parts[2]);
            signed = (parts[0] + "." + parts[1]).getBytes(StandardCharsets.US_ASCII);
            if (!header.text("alg").equals("EdDSA")) throw refused("algorithm", "the algorithm must be EdDSA");
            if (!header.text("typ").equals(type)) throw refused("type", "the type must be " + type);
            if (header.has("crit")) throw refused("format", "critical header parameters are not supported");
        }
    }
}
