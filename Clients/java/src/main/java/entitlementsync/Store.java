package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.io.*;
import java.nio.channels.*;
import java.util.*;
import java.util.function.LongSupplier;

/** The state and the outbox in the storage of this device, which several threads and processes share. */
final class Store {
    /** The clock of the device. */
    final LongSupplier clock;
    private final ShopStorage storage;
    /** The last time that was returned, the monotonic clock at that moment, and the contact on which it was based. */
    private long last, lastRunning;
    private Long lastContact;

    Store(ShopStorage storage, LongSupplier clock) {
        this.storage = storage;
        this.clock = clock;
    }

    /**
     * The server's time, as far as this device knows it. After a contact it runs on even if the device's clock is set
     * back.
     */
    synchronized long now(State state) throws ShopException {
        long running = System.nanoTime() / 1_000_000;
        boolean isSameContact = state.contact() != null && state.contact().equals(lastContact);
        long least = isSameContact ? last + running - lastRunning : Long.MIN_VALUE;
        last = Math.max(state.now(clock.getAsLong()), least);
        lastRunning = running;
        lastContact = state.contact();
        return last;
    }

    /** An action with its result. */
    interface Action<Result> {
        Result run() throws ShopException;
    }

    /** A change of the state and the outbox. */
    interface Change {
        void apply(State state, Outbox outbox) throws ShopException;
    }

    State state() throws ShopException { return new State(read(State.NAME)); }

    Outbox outbox() throws ShopException { return new Outbox(read(Outbox.NAME)); }

    /**
     * Reads the state and the outbox, changes them and stores what has changed, under a lock. The outbox is stored
     * first.
     *
     * @return the new state
     */
    State update(Change change) throws ShopException {
        return locked("shop", () -> {
            State state = state();
            Outbox outbox = outbox();
            change.apply(state, outbox);
            write(Outbox.NAME, outbox.encoded());
            write(State.NAME, Json.bytes(state.json));
            return state;
        });
    }

    /**
     * Changes the state and the outbox only if {@code session} is still logged in.
     *
     * @throws ShopException of the kind {@code CANCELLED} if the account has changed
     */
    State update(State session, Change change) throws ShopException {
        return update((state, outbox) -> {
            checkSame(session, state);
            change.apply(state, outbox);
        });
    }

    static void checkSame(State session, State now) throws ShopException {
        if (now.generation() != session.generation()) {
            throw new ShopException(Kind.CANCELLED, "the account has changed meanwhile");
        }
    }

    /** Runs an action under a lock. The locks are taken in the order {@code send}, {@code session}, {@code shop}. */
    @SuppressWarnings("try")
    <Result> Result locked(String name, Action<Result> action) throws ShopException {
        try (Closeable lock = storage.lock(name)) {
            return action.run();
        } catch (IOException error) { throw failure(error); }
    }

    /** A random name. */
    static String randomName() { return UUID.randomUUID().toString(); }

    private byte[] read(String name) throws ShopException {
        try {
            return storage.read(name);
        } catch (IOException error) { throw failure(error); }
    }

    private void write(String name, byte[] value) throws ShopException {
        try {
            if (!Arrays.equals(storage.read(name), value)) storage.write(name, value);
        } catch (IOException error) { throw failure(error); }
    }

    /** Java has no type for a full disk, so the text of the operating system decides. */
    private static ShopException failure(IOException error) {
        if (error instanceof ClosedByInterruptException || error instanceof FileLockInterruptionException) {
            return new ShopException(Kind.CANCELLED, "the thread was interrupted", error);
        }
        String text = String.valueOf(error.getMessage());
        boolean isFull = text.contains("No space left") || text.contains("ENOSPC") || text.contains("quota exceeded");
        return new ShopException(isFull ? Kind.FULL : Kind.STORAGE, "the storage of this device: " + error, error);
    }
}
