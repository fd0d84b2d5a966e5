package entitlementsync;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;

/** A storage in a folder, whose methods a test overrides. */
class WrappedStorage implements ShopStorage {
    private final FileStorage files;

    WrappedStorage(File folder) {
        files = new FileStorage(folder);
    }

    @Override
    public byte[] read(String name) throws IOException {
        return files.read(name);
    }

    @Override
    public void write(String name, byte[] value) throws IOException {
        files.write(name, value);
    }

    @Override
    public Closeable lock(String name) throws IOException {
        return files.lock(name);
    }
}
