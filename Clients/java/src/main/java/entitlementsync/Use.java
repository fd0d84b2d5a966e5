package entitlementsync;

/** The outcome of one use of an entitlement. */
public final class Use {
    private final Access access;
    private final int spent;

    Use(Access access, int spent) {
        this.access = access;
        this.spent = spent;
    }

    /** True if the content may be used once. */
    public boolean isGranted() { return access.isGranted(); }

    /** 1 if this call spent a unit; 0 if no unit was needed, if the id had spent it before, or if access is denied. */
    public int getSpent() { return spent; }

    /** The reason for denied access; null if it is granted. */
    public Access.Denial getDenial() { return access.getDenial(); }

    /** The access after the use. A granted use may have spent the last unit. */
    public Access getAccess() { return access; }
}
