package entitlementsync;

import entitlementsync.ShopException.Kind;
import java.io.*;
import java.util.*;
import javax.net.ssl.SSLException;

/** Requests to the server, with the token of a session that is refreshed when the server refuses it. */
final class Server {
    private static final int MAXIMUM_LENGTH = 4 << 20;
    /** The longest round trip, in milliseconds, whose answer corrects the clock. */
    private static final long LONGEST_ROUND_TRIP = 120_000;
    /** Plain HTTP would show passwords and tokens to the network, so it is for servers on this device only. */
    private static final String ADDRESS =
        "(https://[^/?#@\\s]+|http://(localhost|127\\.0\\.0\\.1|\\[::1\\])(:[0-9]+)?)(/[^?#\\s]*)?";
    private static final String TIME = "EntitlementSync-Time";
    private static final String REQUEST_ID = "EntitlementSync-Request-ID";

    private final String url;
    private final ShopTransport transport;
    private final Store store;

    Server(String url, ShopTransport transport, Store store) throws ShopException {
        if (!url.matches(ADDRESS)) {
            throw new ShopException(Kind.NO_SERVER, "the server must be https://HOST[:PORT], not " + url);
        }
        this.url = url.replaceAll("/+$", "");
        this.transport = transport;
        this.store = store;
    }

    /** An answer of the server. */
    static final class Answer {
        final int status;
        /** The object of the body; without members for a body that is empty. */
        final JsonObject body;

        Answer(int status, JsonObject body) {
            this.status = status;
            this.body = body;
        }

        /** Returns the body of a success, and throws for a refusal. */
        JsonObject success() throws ShopException {
            if (status >= 200 && status < 300) return body;
            throw failure();
        }

        /** True for a wrong password, and for a refresh token that has ended. */
        boolean isInvalidGrant() { return "invalid_grant".equals(body.members().get("error")); }

        ShopException failure() { return new ShopException(isInvalidGrant() ? Kind.WRONG_PASSWORD : kind(), detail()); }

        /** The reason of a refusal. */
        String detail() {
            Object detail = body.members().get("detail");
            return detail instanceof String ? (String) detail : "the server answers with status " + status;
        }

        private Kind kind() {
            switch (status) {
                case 401: case 409: return Kind.LOG_IN_NEEDED;
                case 403: return Kind.NOT_ALLOWED;
                case 404: return Kind.NO_SERVER;
                case 410: return Kind.ACCOUNT_DELETED;
                case 429: return Kind.TOO_MANY_ATTEMPTS;
                case 400: case 413: case 422: return Kind.INVALID;
                default: return status >= 500 && status != 507 ? Kind.OFFLINE : Kind.OTHER;
            }
        }
    }

    /**
     * Sends a request.
     *
     * @param token the access token; null for none
     * @throws ShopException of the kind {@code OFFLINE}, {@code UNTRUSTED} or {@code NO_SERVER} without an answer of
     *     the server
     */
    Answer send(String method, String path, JsonObject body, String token) throws ShopException {
        String id = Store.randomName();
        Map<String, String> headers = headers("application/json", token);
        headers.put(REQUEST_ID, id);
        if (body != null) headers.put("Content-Type", "application/json");
        long sent = store.clock.getAsLong();
        try (ShopTransport.Response response =
            transport.send(method, url + path, headers, body == null ? null : Json.bytes(body))) {
            byte[] content = content(response.body());
            String echo = response.header(REQUEST_ID);
            if (echo != null && !echo.equals(id)) throw new IOException("the answer belongs to another request");
            if (echo != null) correctClock(response.header(TIME), sent);
            int status = response.status();
            if (status == 204 && echo != null) return new Answer(status, new JsonObject());
            // A proxy may answer this in the server's place.
            boolean isOfProxy = status == 413 || status == 429 || status >= 500;
            if (isOfProxy && !isProblem(response)) return new Answer(status, new JsonObject());
            if (status < 200 || status >= 300 && status < 400 || status >= 400 && !isProblem(response)) {
                throw new ShopException(Kind.NO_SERVER, "another kind of server has answered, with status " + status);
            }
            return new Answer(status, Json.object(content, Kind.NO_SERVER));
        } catch (IOException error) { throw unreachable(error); }
    }

    static ShopException unreachable(IOException error) {
        Kind kind = error instanceof SSLException ? Kind.UNTRUSTED : Kind.OFFLINE;
        return new ShopException(kind, "the server cannot be reached: " + error, error);
    }

    /**
     * Sends a request with the token of a session, and refreshes the token if the server refuses it.
     *
     * @param session the state with the account that the request is about
     * @throws ShopException also of the kind {@code LOG_IN_NEEDED} if the session has ended, or {@code CANCELLED} if
     *     the account has changed
     */
    Answer send(State session, String method, String path, JsonObject body) throws ShopException {
        JsonObject tokens = tokens(session);
        Answer answer = send(method, path, body, tokens.text("access"));
        if (answer.status != 401) return answer;
        answer = send(method, path, body, refreshed(session, tokens).text("access"));
        if (answer.status == 401) throw answer.failure();
        return answer;
    }

    /** Opens a stream of events with the token of a session. The caller closes it. */
    ShopTransport.Response stream(State session, String path) throws ShopException {
        JsonObject tokens = tokens(session);
        try {
            ShopTransport.Response response =
                transport.send("GET", url + path, headers("text/event-stream", tokens.text("access")), null);
            if (response.status() == 200) return response;
            response.close();
            // The next attempt has a new token.
            if (response.status() == 401) refreshed(session, tokens);
            throw new ShopException(Kind.OFFLINE, "the server has no events: status " + response.status());
        } catch (IOException error) { throw unreachable(error); }
    }

    private JsonObject tokens(State session) throws ShopException {
        State now = store.state();
        Store.checkSame(session, now);
        if (now.tokens() != null) return now.tokens();
        throw new ShopException(Kind.LOG_IN_NEEDED, "no session is left: log in");
    }

    /** Replaces tokens that the server has refused, once for all callers in all processes. */
    private JsonObject refreshed(State session, JsonObject refused) throws ShopException {
        return store.locked("session", () -> {
            JsonObject tokens = tokens(session);
            if (tokens.number("number") != refused.number("number")) return tokens;
            JsonObject request = new JsonObject().put("grant_type", "refresh_token")
                .put("refresh_token", tokens.text("refresh"));
            Answer answer = send("POST", "/v1/sessions", request, null);
            if (answer.isInvalidGrant()) {
                store.update(session, (state, outbox) -> state.json.put("tokens", null));
                throw new ShopException(Kind.LOG_IN_NEEDED, "the server has ended the session");
            }
            JsonObject next = tokens(answer.success(), tokens.number("number") + 1);
            store.update(session, (state, outbox) -> state.json.put("tokens", next));
            return next;
        });
    }

    /** The tokens in the answer to a log-in or a refresh, as the state has them. */
    static JsonObject tokens(JsonObject body, long number) throws ShopException {
        return new JsonObject(Kind.DAMAGED).put("access", body.text("access_token"))
            .put("refresh", body.text("refresh_token")).put("number", number);
    }

    private static Map<String, String> headers(String type, String token) {
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Accept", type);
        if (token != null) headers.put("Authorization", "Bearer " + token);
        return headers;
    }

    private static boolean isProblem(ShopTransport.Response response) {
        String type = response.header("Content-Type");
        return type != null && type.startsWith("application/problem+json");
    }

    private static byte[] content(InputStream body) throws IOException {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        byte[] piece = new byte[8_192];
        for (int count = body.read(piece); count >= 0; count = body.read(piece)) {
            content.write(piece, 0, count);
            if (content.size() > MAXIMUM_LENGTH) throw new IOException("the answer is too long");
        }
        return content.toByteArray();
    }

    private void correctClock(String text, long sent) throws ShopException {
        long trip = store.clock.getAsLong() - sent;
        if (text == null || !text.matches("[0-9]{1,15}") || trip < 0 || trip > LONGEST_ROUND_TRIP) return;
        long time = Long.parseLong(text);
        State known = store.state();
        boolean isNews = known.offset() == null || Math.abs(store.now(known) - time) > 1_000 + trip;
        if (isNews) store.update((state, outbox) -> state.correctClock(time, sent, trip));
    }
}
