package entitlementsync;

/** The clock of the device. The shop corrects it by the server's time. For tests. */
public interface ShopClock {
    /** The time in milliseconds since 1970 UTC. */
    long now();
}
