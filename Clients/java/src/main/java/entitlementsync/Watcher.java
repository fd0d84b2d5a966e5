package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Calls the listeners of a shop. While there are listeners it follows the server's stream of changes, and wakes when
 * access ends.
 */
final class Watcher {
    private static final long LONGEST_PAUSE = 60_000;

    private final Shop shop;
    private final List<ShopListener> listeners = new CopyOnWriteArrayList<>();
    /** The thread that calls the listeners; null without listeners. */
    private ScheduledExecutorService executor;
    private Future<?> wake, refresh;
    /** Ends the threads of earlier accounts. */
    private long followed = -1;
    private volatile boolean isActive;
    /** What the listeners know. Only the executor's thread uses it. */
    private Map<String, Access> last;
    private ShopException lastFailure;

    Watcher(Shop shop) {
        this.shop = shop;
    }

    synchronized Closeable add(ShopListener listener) {
        listeners.add(listener);
        if (executor == null) {
            isActive = true;
            executor = Executors.newSingleThreadScheduledExecutor(work -> daemon(work, "entitlementsync-listeners"));
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
        isActive = false;
        followed = -1;
        if (executor != null) executor.shutdownNow();
        executor = null;
        notifyAll();
    }

    /** Called after each change of the state, the outbox or the failure. */
    synchronized void changed() {
        if (executor == null) return;
        executor.execute(this::notifyListeners);
    }

    private void notifyListeners() {
        try {
            State state = shop.store.state();
            follow(state);
            long now = state.now(shop.clock.now());
            Map<String, Access> access = shop.allAccess(state, now);
            if (!access.equals(last)) {
                last = access;
                for (ShopListener listener : listeners) listener.onChange(access);
            }
            for (Outbox.Entry entry : shop.takeRejected()) {
                for (ShopListener listener : listeners) listener.onRejected(entry.item, Shop.error(entry.problem));
            }
            wake(access, now);
        } catch (ShopException error) {
            // Reporting it as a change would call this method again at once.
            shop.failure = error;
            wake(Collections.emptyMap(), 0);
        }
        ShopException failure = shop.getFailure();
        if (failure != null && failure != lastFailure) {
            for (ShopListener listener : listeners) listener.onFailure(failure);
        }
        lastFailure = failure;
    }

    /** Wakes at the next end of access, and once a minute for the end of a grant and for other processes. */
    private synchronized void wake(Map<String, Access> access, long now) {
        long pause = LONGEST_PAUSE;
        for (Access each : access.values()) {
            if (each.isGranted() && each.getUntil() != null) {
                pause = Math.min(pause, each.getUntil().toEpochMilli() - now);
            }
        }
        if (wake != null) wake.cancel(false);
        if (executor != null) wake = executor.schedule(this::notifyListeners, Math.max(pause, 1), TimeUnit.MILLISECONDS);
    }

    /** Follows the changes of the account of {@code state}, unless a thread does already. */
    private synchronized void follow(State state) {
        if (!isActive || followed == state.generation) return;
        followed = state.generation;
        notifyAll();
        if (state.account != null) daemon(() -> run(state), "entitlementsync-changes").start();
    }

    private static Thread daemon(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        return thread;
    }

    private synchronized boolean isFollowing(State session) {
        return isActive && followed == session.generation;
    }

    private void run(State session) {
        long pause = 1_000;
        while (isFollowing(session)) {
            try {
                shop.refresh();
                pause = 1_000;
                read(session);
            } catch (ShopException error) {
                if (error.getKind() != Kind.CANCELLED) shop.setFailure(error);
            }
            pause(session, pause);
            pause = Math.min(pause * 2, LONGEST_PAUSE);
        }
    }

    private synchronized void pause(State session, long milliseconds) {
        try {
            if (isFollowing(session)) wait(milliseconds);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    /** Reads the stream until it ends, which the server's heartbeats prevent. */
    private void read(State session) throws ShopException {
        try (ShopTransport.Response stream = shop.server.stream(session, "/v1/changes");
            BufferedReader lines =
                new BufferedReader(new InputStreamReader(stream.body(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null && isFollowing(session); line = lines.readLine()) {
                if (line.equals("event: change")) scheduleRefresh();
                if (line.equals("event: expired")) return;
            }
        } catch (IOException error) {
            throw Server.unreachable(error);
        }
    }

    /** Refreshes once for all changes within a second. */
    private synchronized void scheduleRefresh() {
        if (executor == null || refresh != null && !refresh.isDone()) return;
        refresh = executor.schedule(() -> {
            try {
                shop.refresh();
            } catch (ShopException error) {
                shop.setFailure(error);
            }
        }, 1, TimeUnit.SECONDS);
    }
}
