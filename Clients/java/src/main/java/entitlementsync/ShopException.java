package entitlementsync;

import java.util.*;

/**
 * An error of a {@link Shop}.
 *
 * <p>{@link #getKind()} is for the app, {@link #getUserMessage()} for the user, and {@link #getMessage()} for a log.
 */
public final class ShopException extends Exception {
    private static final long serialVersionUID = 1;
    private static final String APP_IS_WRONG =
        "The shop of this app does not work. Please look for an update of the app.";

    /** The kinds of errors. New kinds may be added, so a {@code switch} needs a default case. */
    public enum Kind {
        /** The server's catalogue lacks the product or the entitlement. A mistake of the app. */
        CATALOG(APP_IS_WRONG),
        /** The address of the server is wrong, or another kind of server answers there. */
        NO_SERVER(APP_IS_WRONG),
        /** The server cannot be reached. What was reported on this device is safe. */
        OFFLINE("There is no connection to the server. Purchases on this device are safe. Try again later."),
        /** The name, the password or the recovery code is wrong. */
        WRONG_PASSWORD("The name or the password is wrong. Check both, and try again."),
        /** The server has counted too many attempts. Wait before the next one. */
        TOO_MANY_ATTEMPTS("There were too many attempts. Wait a few minutes, and try again."),
        /** The name is taken by another account. */
        NAME_TAKEN("This name is taken. Choose another name, or log in if the account is yours."),
        /** The name, the new password or another value is not allowed. */
        INVALID("This is not allowed: %s. Change it, and try again."),
        /** The server does not allow this to the user, for example because it has closed its sign-up. */
        NOT_ALLOWED("The server does not allow this. Ask the app's support."),
        /** The certificate of the server is not trusted: the device's date is wrong, or the network intercepts. */
        UNTRUSTED("The connection to the server is not secure. Check the date of this device, and the network."),
        /** The account changed, or the shop was closed, while the call was under way. Show nothing. */
        CANCELLED("This was cancelled."),
        /** No account is logged in, or its session has ended: log in. */
        LOG_IN_NEEDED("You are not logged in. Log in, and try again."),
        /** The account was deleted. */
        ACCOUNT_DELETED("This account was deleted. Log in to another account, or create one."),
        /** The disk is full. Nothing that was confirmed is lost. */
        FULL("This device has no free space. Free some space, and try again. Nothing was lost."),
        /** 1,000 items wait for the server. Nothing was stored: connect, so that they are sent, and repeat the call. */
        OUTBOX_FULL("Too much waits for the server. Connect to the internet so that it can be sent, and try again."),
        /** The data of the shop on this device cannot be read or written. */
        STORAGE("This device cannot read or save your purchases. Restart the app, or ask the app's support."),
        /** The data of the shop on this device is damaged. Nothing was changed. */
        DAMAGED("The purchases on this device are damaged. Install the app again, then restore your purchases."),
        /** A later version of the app wrote the data of the shop on this device. Nothing was changed. */
        NEWER_VERSION("A newer version of this app has saved your purchases. Update the app."),
        /** Only what a store has signed counts, and this item was reported by the app. */
        UNVERIFIED("Your purchase is not confirmed yet. Connect to the internet, and restore your purchases."),
        /** Another account has the purchase. */
        OWNED_BY_ANOTHER_ACCOUNT("Your purchase belongs to another account. Log in to that account."),
        /** The server refuses the item for another reason, for example because a check of its evidence failed. */
        REFUSED_BY_SERVER("Your purchase could not be confirmed. Ask the app's support."),
        /** Any other error. */
        OTHER("This did not work. Please look for an update of the app, or ask the app's support.");

        private final String text;

        Kind(String text) { this.text = text; }

        /** The name that all clients share, such as {@code wrongPassword}. */
        public String getName() { return camelCase(name()); }
    }

    private final Kind kind;
    private final String description;

    ShopException(Kind kind, String description) { this(kind, description, null); }

    ShopException(Kind kind, String description, Throwable cause) {
        super(kind.getName() + ": " + description, cause);
        this.kind = kind;
        this.description = description;
    }

    /** The kind of the error. */
    public Kind getKind() { return kind; }

    /** The problem and the next step for the user, in English. An app in another language words it by the kind. */
    public String getUserMessage() { return String.format(kind.text, description); }

    /** True if the same call may succeed later. */
    public boolean isTransient() {
        return Arrays.asList(Kind.OFFLINE, Kind.CANCELLED, Kind.TOO_MANY_ATTEMPTS, Kind.OUTBOX_FULL).contains(kind);
    }

    static String camelCase(String name) {
        StringBuilder out = new StringBuilder();
        for (String word : name.split("_")) {
            out.append(word.charAt(0)).append(word.substring(1).toLowerCase(Locale.ROOT));
        }
        return Character.toLowerCase(out.charAt(0)) + out.substring(1);
    }
}
