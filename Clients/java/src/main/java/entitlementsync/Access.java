package entitlementsync;

import java.time.Instant;
import java.util.*;

/** The access to an entitlement, at the time of the call. */
public final class Access {
    /** The reason for which access is denied. */
    public enum Denial {
        /** Nothing that grants access was ever bought. */
        NOT_PURCHASED,
        /** All units that were bought are used up. */
        USED_UP,
        /** No account is logged in. */
        LOG_IN_NEEDED,
        /** This device has no current answer of the server. A restore may find a purchase. */
        RESTORE_NEEDED,
        /** A purchase awaits approval. */
        PENDING_APPROVAL,
        /** The time that was bought has ended, see {@link Access#getUntil()}. */
        EXPIRED,
        /** The purchase was refunded or revoked, see {@link Access#getUntil()}. */
        REVOKED,
        /** A purchase is known, and the server has not confirmed it. Do not ask the user to buy again: refresh. */
        UNVERIFIED,
        /** A purchase is known, and belongs to another account. */
        OWNED_BY_ANOTHER_ACCOUNT,
        /** A purchase is known, and the server refused it, see {@link Access#getDetail()}. */
        REFUSED_BY_SERVER,
        /** A reason of a server of a later version. */
        OTHER;

        /** The name that all clients share, such as {@code notPurchased}. */
        public String getName() { return ShopException.camelCase(name()); }

        static Denial of(String name) {
            if ("signInNeeded".equals(name)) return LOG_IN_NEEDED;
            for (Denial denial : values()) if (denial.getName().equals(name)) return denial;
            return OTHER;
        }
    }

    private final Instant until;
    private final Long units;
    private final Denial denial;
    private final String detail;

    private Access(Instant until, Long units, Denial denial, String detail) {
        this.until = until;
        this.units = units;
        this.denial = denial;
        this.detail = detail;
    }

    static Access granted(Instant until, Long units) { return new Access(until, units, null, null); }

    static Access denied(Denial reason, Instant date) { return denied(reason, date, null); }

    static Access denied(Denial reason, Instant date, String detail) { return new Access(date, null, reason, detail); }

    /** True if the content is available now. */
    public boolean isGranted() { return denial == null; }

    /** The end of granted access, or the date at which it ended; null for none. */
    public Instant getUntil() { return until; }

    /** The number of units that are left, if units grant the access; otherwise null. */
    public Long getUnits() { return units; }

    /** The reason for denied access; null if it is granted. */
    public Denial getDenial() { return denial; }

    /** The server's reason for {@link Denial#REFUSED_BY_SERVER}, for the app's support; otherwise null. */
    public String getDetail() { return detail; }

    private List<Object> values() { return Arrays.asList(denial, until, units, detail); }

    @Override public boolean equals(Object other) {
        return other instanceof Access && values().equals(((Access) other).values());
    }

    @Override public int hashCode() { return values().hashCode(); }

    /** The decision as readable text, for a log. */
    @Override public String toString() {
        String text = denial == null ? "granted" : denial.getName();
        if (units != null) return text + ", units left: " + units;
        return until == null ? text : text + (denial == null ? " until " : " at ") + until;
    }
}
