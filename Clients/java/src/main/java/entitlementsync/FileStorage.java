package entitlementsync;

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.nio.file.attribute.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Storage in a folder, in files that only the user can read. On Android pass a folder in
 * {@code Context.getNoBackupFilesDir()}: a copy on another device would share the session and the device's id.
 */
public final class FileStorage implements ShopStorage {
    /** File locks belong to a process, so the threads of this process need locks of their own. */
    private static final ConcurrentMap<Path, ReentrantLock> LOCKS = new ConcurrentHashMap<>();

    private final Path folder;

    /** Uses a folder, and creates it when a value is written. */
    public FileStorage(File folder) { this.folder = folder.toPath().toAbsolutePath().normalize(); }

    @Override public byte[] read(String name) throws IOException {
        try {
            return Files.readAllBytes(folder.resolve(name));
        } catch (NoSuchFileException absent) { return null; }
    }

    @Override public void write(String name, byte[] value) throws IOException {
        createFolder();
        // Only the holder of a lock writes, so no two writers share the temporary file.
        Path next = folder.resolve(name + ".next");
        Set<OpenOption> options = new HashSet<>(Arrays.asList(
            StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE));
        try (FileChannel file = FileChannel.open(next, options, permissions("rw-------"))) {
            ByteBuffer bytes = ByteBuffer.wrap(value);
            while (bytes.hasRemaining()) file.write(bytes);
            file.force(true);
        } catch (IOException error) {
            // The text of the operating system may be in another language.
            boolean isFull = folder.toFile().getUsableSpace() < value.length;
            Files.deleteIfExists(next);
            throw isFull ? new IOException("No space left: " + error.getMessage(), error) : error;
        }
        Files.move(next, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        if (File.separatorChar == '/') {
            try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) { directory.force(true); }
        }
    }

    @Override public Closeable lock(String name) throws IOException {
        createFolder();
        Path path = folder.toRealPath().resolve(name + ".lock");
        ReentrantLock threads = LOCKS.computeIfAbsent(path, absent -> new ReentrantLock());
        threads.lock();
        FileChannel file = null;
        try {
            file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            file.lock();
        } catch (IOException | RuntimeException error) {
            if (file != null) file.close();
            threads.unlock();
            throw error;
        }
        FileChannel locked = file;
        return () -> { try { locked.close(); } finally { threads.unlock(); } };
    }

    private void createFolder() throws IOException {
        if (!Files.isDirectory(folder)) Files.createDirectories(folder, permissions("rwx------"));
    }

    private static FileAttribute<?>[] permissions(String text) {
        if (File.separatorChar != '/') return new FileAttribute<?>[0];
        return new FileAttribute<?>[] {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(text))};
    }
}
