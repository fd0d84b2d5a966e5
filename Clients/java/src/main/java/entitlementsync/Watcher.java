package entitlementsync;

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;

/**
 * Calls the listeners of a shop. While there are listeners it follows the server's stream of changes, and wakes when
 * access ends.
 */
final class Watcher {
    private static final long SHORTEST_PAUSE = 1_000;
    private static final long LONGEST_PAUSE = 60_000;

    private final Shop shop;
    private final List<ShopListener> listeners = new CopyOnWriteArrayList<>();
    /** The thread that calls the listeners; null without listeners. */
    private ScheduledExecutorService executor;
    private Future<?> wake;
    /** What the listeners know. Only the executor's thread uses it. */
    private Map<String, Access> last;
    private ShopException lastFailure;

    Watcher(Shop shop) { this.shop = shop; }

    synchronized Closeable add(ShopListener listener) {
        listeners.add(listener);
        if (executor == null) {
            ScheduledExecutorService started = Executors.newSingleThreadScheduledExecutor(Watcher::daemon);
            executor = started;
            daemon(() -> follow(started)).start();
        }
        // The new listener gets the present access, and so do the others.
        executor.execute(() -> last = null);
        changed();
        return () -> remove(listener);
    }

    private synchronized void remove(ShopListener listener) {
        listeners.remove(listener);
        if (listeners.isEmpty()) stop();
    }

    synchronized void stop() {
        listeners.clear();
        if (executor != null) executor.shutdownNow();
        executor = null;
    }

    /** Called after each change of the state, the outbox or the failure. */
    synchronized void changed() { if (executor != null) executor.execute(this::run); }

    /** The executor would swallow an exception of a listener. */
    private void run() {
        try {
            notifyListeners();
        } catch (RuntimeException error) {
            Thread.currentThread().getUncaughtExceptionHandler().uncaughtException(Thread.currentThread(), error);
        }
    }

    private void notifyListeners() {
        try {
            Map<String, Access> access = shop.getAllAccess();
            if (!access.equals(last)) for (ShopListener listener : listeners) listener.onChange(access);
            last = access;
            for (JsonObject entry : shop.sync.takeRejected()) {
                Item item = new Item(entry.object("item"));
                for (ShopListener listener : listeners) listener.onRejected(item, Sync.error(entry.object("problem")));
            }
            wake(access, shop.store.now(shop.store.state()));
        } catch (ShopException error) {
            // Reporting it as a change would call this method again at once.
            shop.sync.failure = error;
            wake(Collections.emptyMap(), 0);
        }
        ShopException failure = shop.sync.failure;
        boolean isNew = failure != null && failure != lastFailure;
        if (isNew) for (ShopListener listener : listeners) listener.onFailure(failure);
        lastFailure = failure;
    }

    /** Wakes at the next end of access, and once a minute for the end of a grant and for other processes. */
    private synchronized void wake(Map<String, Access> access, long now) {
        long pause = LONGEST_PAUSE;
        for (Access each : access.values()) {
            boolean ends = each.isGranted() && each.getUntil() != null;
            if (ends) pause = Math.min(pause, each.getUntil().toEpochMilli() - now);
        }
        if (wake != null) wake.cancel(false);
        if (executor != null) wake = executor.schedule(this::run, Math.max(pause, 1), TimeUnit.MILLISECONDS);
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "entitlementsync");
        thread.setDaemon(true);
        return thread;
    }

    /** Keeps the account that is logged in current, until the executor is shut down. */
    private void follow(ExecutorService executor) {
        long pause = 0;
        while (!isOver(executor, pause)) {
            try {
                State session = shop.store.state();
                if (session.tokens() != null) read(session, executor);
                pause = SHORTEST_PAUSE;
            } catch (ShopException error) {
                shop.sync.setFailure(error);
                pause = Math.max(SHORTEST_PAUSE, Math.min(pause * 2, LONGEST_PAUSE));
            }
        }
    }

    private static boolean isOver(ExecutorService executor, long pause) {
        try {
            return executor.awaitTermination(pause, TimeUnit.MILLISECONDS);
        } catch (InterruptedException stopped) { return true; }
    }

    /** Refreshes at each change, until the stream or the session ends. The server's heartbeats come more often. */
    private void read(State session, ExecutorService executor) throws ShopException {
        try (ShopTransport.Response stream = shop.server.stream(session, "/v1/changes");
            BufferedReader lines = new BufferedReader(new InputStreamReader(stream.body(), StandardCharsets.UTF_8))) {
            shop.refresh();
            boolean hasChanged = false;
            for (String line = lines.readLine(); line != null && !executor.isShutdown(); line = lines.readLine()) {
                Store.checkSame(session, shop.store.state());
                if (line.equals("event: expired")) return;
                hasChanged |= line.equals("event: change");
                // One refresh for all changes that have arrived.
                if (!hasChanged || lines.ready()) continue;
                shop.refresh();
                hasChanged = false;
            }
        } catch (IOException error) { throw Server.unreachable(error); }
    }
}
