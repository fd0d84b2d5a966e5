package entitlementsync;

import java.io.Closeable;
import java.io.IOException;

/**
 * The storage of a shop on this device: a few named values of at most some megabytes, which hold the session's tokens
 * and what waits for the server. {@link FileStorage} keeps them in a folder.
 *
 * <p>An app that encrypts its files implements this interface. Calls come from several threads. An implementation must
 * keep these promises:
 * <ul>
 * <li>A write is atomic and durable: after it returns, every read in any process returns the new value, also after a
 *     loss of power. A read during a write returns the old or the new value.
 * <li>A lock is exclusive among all threads and processes that use the same storage, and ends with its process.
 * <li>A failed read throws. It never looks like an absent value.
 * </ul>
 */
public interface ShopStorage {
    /** Returns the value, or null if there is none. */
    byte[] read(String name) throws IOException;

    /** Replaces the value. */
    void write(String name, byte[] value) throws IOException;

    /** Waits for the lock, which the caller closes. A thread does not take a lock that it has. */
    Closeable lock(String name) throws IOException;
}
