package entitlementsync;

import java.time.Instant;
import java.util.function.LongSupplier;

/** A clock that can be set, and runs on from there. */
final class SetClock implements LongSupplier {
    private volatile long difference;

    SetClock(String time) {
        set(time);
    }

    void set(String time) {
        difference = Instant.parse(time).toEpochMilli() - System.nanoTime() / 1_000_000;
    }

    @Override
    public String toString() {
        return Instant.ofEpochMilli(getAsLong()).toString();
    }

    @Override
    public long getAsLong() {
        return difference + System.nanoTime() / 1_000_000;
    }
}
