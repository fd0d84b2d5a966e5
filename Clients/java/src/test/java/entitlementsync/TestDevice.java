package entitlementsync;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.LongSupplier;

/** A device with a storage, a clock and a link of its own. */
final class TestDevice implements Closeable {
    final TestServer server;
    final Path folder;
    final Link link = new Link();
    final SetClock clock;
    Shop shop;

    TestDevice(TestServer server, String name) throws ShopException {
        this(server, name, TestServer.AT);
    }

    TestDevice(TestServer server, String name, String at) throws ShopException {
        this.server = server;
        folder = server.folder.resolve("device-" + name);
        clock = new SetClock(at);
        shop = open();
    }

    /** Opens another shop on the storage, as another process does. */
    Shop open() throws ShopException {
        return open(new FileStorage(folder.toFile()));
    }

    /** Opens another shop on a storage that wraps that of the device. */
    Shop open(ShopStorage storage) throws ShopException {
        Trust trust = server.root == null ? Trust.server() : Trust.signedBy(server.root);
        return Shop.open(server.url, storage, trust, options(link, clock));
    }

    static Shop.Options options(ShopTransport transport, LongSupplier clock) {
        Shop.Options options = new Shop.Options();
        options.transport = transport;
        options.clock = clock;
        return options;
    }

    /** Opens the shop again, as after the end of the process. */
    void reopen() throws ShopException {
        shop.close();
        shop = open();
    }

    @Override
    public void close() throws IOException {
        shop.close();
    }
}
