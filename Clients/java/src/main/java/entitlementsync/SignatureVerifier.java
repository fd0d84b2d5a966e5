package entitlementsync;

import java.security.*;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;

/**
 * Verifies Ed25519 signatures (RFC 8032). Java 15 and Android 13 have the algorithm; for older systems an app passes
 * an implementation over a library such as Tink.
 */
public interface SignatureVerifier {
    /** True if {@code key}, 32 bytes, has signed {@code message} with {@code signature}, 64 bytes. */
    boolean isValid(byte[] signature, byte[] message, byte[] key) throws GeneralSecurityException;

    /** The verifier of the platform. */
    SignatureVerifier PLATFORM = (signature, message, key) -> {
        // The bytes before the key in an X.509 SubjectPublicKeyInfo (RFC 8410).
        byte[] prefix = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
        byte[] encoded = Arrays.copyOf(prefix, prefix.length + key.length);
        System.arraycopy(key, 0, encoded, prefix.length, key.length);
        PublicKey known = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
        Signature verifier = Signature.getInstance("Ed25519");
        verifier.initVerify(known);
        verifier.update(message);
        return verifier.verify(signature);
    };
}
