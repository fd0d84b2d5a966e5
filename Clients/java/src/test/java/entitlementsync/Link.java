package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;

/**
 * The link of a device to the server, with the faults of the scenarios. {@code mix-up} is the answer to another
 * request, {@code proxy-413} and {@code proxy-429} are answers in the server's place.
 */
final class Link implements ShopTransport {
    private static final List<String> FAULTS = Arrays.asList(
        "lose-request", "lose-answer", "refuse-token", "foreign", "mix-up", "proxy-413", "proxy-429");

    /** The requests that were answered, as method, path and body. */
    final List<String> requests = Collections.synchronizedList(new ArrayList<>());
    /** The times of those answers, in nanoseconds. */
    final List<Long> times = Collections.synchronizedList(new ArrayList<>());
    /** The answers, as status, method and path. */
    final List<String> answers = Collections.synchronizedList(new ArrayList<>());
    volatile boolean isDown;
    private final ShopTransport transport = new UrlTransport();
    private volatile boolean addsUnknownMembers;
    private String fault, faultPath;
    /** Holds an answer back until it opens. */
    private volatile CountDownLatch gate, arrival;
    private String gatePath;

    /** Sets a fault for the next request to a path. {@code unknown-fields} lasts. */
    synchronized void fail(String fault, String path) {
        if (fault.equals("unknown-fields")) addsUnknownMembers = true;
        else if (fault.equals("down") || fault.equals("up")) isDown = fault.equals("down");
        else if (!FAULTS.contains(fault)) throw new IllegalArgumentException("unknown fault: " + fault);
        else {
            this.fault = fault;
            faultPath = Objects.requireNonNull(path, "path");
        }
    }

    /** Holds the answer to the next request to a path back, until {@link #open()}. */
    synchronized void hold(String path) {
        gate = new CountDownLatch(1);
        arrival = new CountDownLatch(1);
        gatePath = path;
    }

    /** Waits until an answer is held back. */
    void awaitHeld() throws InterruptedException {
        arrival.await();
    }

    void open() {
        gate.countDown();
    }

    private synchronized boolean takeGate(String path) {
        if (gatePath == null || !path.startsWith(gatePath)) return false;
        gatePath = null;
        return true;
    }

    long count(String start) { return count(requests, start); }

    static long count(List<String> lines, String start) {
        synchronized (lines) {
            return lines.stream().filter(line -> line.startsWith(start)).count();
        }
    }

    private synchronized String takeFault(String path) {
        if (fault == null || !path.startsWith(faultPath)) return "";
        String taken = fault;
        fault = null;
        return taken;
    }

    @Override
    public Response send(String method, String url, Map<String, String> headers, byte[] body) throws IOException {
        if (isDown) throw new ConnectException("the link is down");
        String path = url.replaceFirst("^https?://[^/]+", "");
        String request = method + " " + path + " " + (body == null ? "" : new String(body, StandardCharsets.UTF_8));
        String fault = takeFault(path);
        switch (fault) {
            case "lose-request": throw new ConnectException("the request was lost");
            case "refuse-token":
                return answer(401, "application/problem+json", "{\"status\":401,\"detail\":\"refused\"}", null);
            case "foreign": return answer(200, "text/html", "<html>Welcome to this hotel</html>", null);
            case "proxy-413": case "proxy-429":
                answers.add(fault.substring(6) + " " + method + " " + path);
                return answer(Integer.parseInt(fault.substring(6)), "text/html", "<html>a proxy</html>", null);
            default: break;
        }
        boolean isHeld = takeGate(path);
        if (fault.equals("mix-up")) headers.put("EntitlementSync-Request-ID", "of-another-request");
        if (headers.get("Accept").equals("text/event-stream")) return transport.send(method, url, headers, body);
        try (Response response = transport.send(method, url, headers, body)) {
            String text = new String(readAll(response.body()), StandardCharsets.UTF_8);
            if (addsUnknownMembers && !text.isEmpty()) text = withUnknownMembers(text);
            requests.add(request);
            times.add(System.nanoTime());
            answers.add(response.status() + " " + method + " " + path);
            if (isHeld) {
                arrival.countDown();
                gate.await();
            }
            if (fault.equals("lose-answer")) throw new IOException("the answer was lost");
            return answer(response.status(), response.header("Content-Type"), text, response);
        } catch (InterruptedException error) {
            throw new IOException(error);
        }
    }

    private static byte[] readAll(InputStream stream) throws IOException {
        java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream();
        for (int b = stream.read(); b >= 0; b = stream.read()) out.write(b);
        return out.toByteArray();
    }

    private static String withUnknownMembers(String text) {
        try {
            return Json.text(extended(Json.object(text.getBytes(StandardCharsets.UTF_8), Kind.OTHER)));
        } catch (ShopException error) {
            throw new AssertionError(error);
        }
    }

    private static Object extended(Object value) {
        if (value instanceof List) {
            List<Object> list = new ArrayList<>();
            for (Object element : (List<?>) value) list.add(extended(element));
            return list;
        }
        if (!(value instanceof JsonObject)) return value;
        JsonObject object = new JsonObject();
        ((JsonObject) value).members().forEach((name, member) -> object.put(name, extended(member)));
        return object.put("later", new JsonObject().put("version", 2L));
    }

    private static Response answer(int status, String type, String text, Response original) {
        return new Response() {
            @Override
            public int status() {
                return status;
            }

            @Override
            public String header(String name) {
                if (name.equals("Content-Type")) return type;
                return original == null ? null : original.header(name);
            }

            @Override
            public InputStream body() {
                return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
            }

            @Override
            public void close() {}
        };
    }
}
