package entitlementsync;

import java.security.GeneralSecurityException;
import java.util.List;

/** The authority for access while the server cannot be asked. */
public final class Trust {
    /** The pinned keys; null if grants are not used. */
    final List<byte[]> roots;
    private final SignatureVerifier verifier;

    private Trust(List<byte[]> roots, SignatureVerifier verifier) {
        this.roots = roots;
        this.verifier = verifier;
    }

    /**
     * The last answer of the server, as it is stored on this device. Right for apps that trust their users' devices.
     * The server needs no root key.
     */
    public static Trust server() { return new Trust(null, null); }

    /**
     * The last grant that the server has signed for this device. Access ends at the end of the purchase or of the
     * grant, whichever is earlier. The server must run with a root key, and with the policy {@code verified}.
     *
     * @param roots the public keys that {@code syncd keys root} prints; two, to be able to replace one
     * @throws IllegalArgumentException if there is no key, or if one is malformed
     */
    public static Trust signedBy(String... roots) { return signedBy(SignatureVerifier.PLATFORM, roots); }

    /** The same with another verifier, for systems without Ed25519. */
    public static Trust signedBy(SignatureVerifier verifier, String... roots) {
        return new Trust(Grant.roots(roots), verifier);
    }

    boolean isSigned() { return roots != null; }

    /** An exception of the verifier refuses the grant, also if the platform lacks the algorithm. */
    boolean isValid(byte[] signature, byte[] message, byte[] key) throws ShopException {
        try {
            return key.length == 32 && signature.length == 64 && verifier.isValid(signature, message, key);
        } catch (GeneralSecurityException error) {
            throw Grant.refused("signature", "the signature cannot be checked: " + error);
        }
    }
}
