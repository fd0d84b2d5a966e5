package entitlementsync;

import entitlementsync.ShopException.Kind;
import entitlementsync.State.Tokens;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.net.ssl.SSLException;

/** Requests to the server, with the token of a session that is refreshed when the server refuses it. */
final class Server {
    private static final int MAXIMUM_LENGTH = 4 << 20;
    private static final String TIME = "EntitlementSync-Time";
    private static final String REQUEST_ID = "EntitlementSync-Request-ID";

    private final String url;
    private final ShopTransport transport;
    private final ShopClock clock;
    private final Store store;

    Server(String url, ShopTransport transport, ShopClock clock, Store store) throws ShopException {
        this.url = checked(url);
        this.transport = transport;
        this.clock = clock;
        this.store = store;
    }

    /** Plain HTTP would show passwords and tokens to the network, so it is for servers on this device only. */
    private static String checked(String url) throws ShopException {
        try {
            URI address = URI.create(url);
            boolean isLocal = "localhost".equals(address.getHost()) || "127.0.0.1".equals(address.getHost())
                || "[::1]".equals(address.getHost());
            boolean isAddress = address.getHost() != null && address.getQuery() == null
                && address.getFragment() == null && address.getUserInfo() == null;
            if (isAddress && ("https".equals(address.getScheme()) || isLocal && "http".equals(address.getScheme()))) {
                return url.replaceAll("/+$", "");
            }
        } catch (IllegalArgumentException malformed) {
            // The same error as for another scheme.
        }
        throw new ShopException(Kind.NO_SERVER, "the server must be https://HOST[:PORT], not " + url);
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
        boolean isInvalidGrant() {
            return "invalid_grant".equals(body.members().get("error"));
        }

        ShopException failure() {
            String detail = String.valueOf(body.members().get("detail"));
            if (isInvalidGrant()) return new ShopException(Kind.WRONG_PASSWORD, detail);
            return new ShopException(kind(), detail);
        }

        private Kind kind() {
            switch (status) {
                case 401: return Kind.LOG_IN_NEEDED;
                case 403: return Kind.NOT_ALLOWED;
                case 404: return Kind.NO_SERVER;
                case 410: return Kind.ACCOUNT_DELETED;
                case 429: return Kind.TOO_MANY_ATTEMPTS;
                case 400: case 409: case 413: case 422: return Kind.INVALID;
                case 507: return Kind.OTHER;
                default: return status >= 500 ? Kind.OFFLINE : Kind.OTHER;
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
        long sent = clock.now();
        try (ShopTransport.Response response =
            transport.send(method, url + path, headers, body == null ? null : Json.bytes(body))) {
            byte[] content = content(response.body());
            String echo = response.header(REQUEST_ID);
            if (echo != null && !echo.equals(id)) throw new IOException("the answer belongs to another request");
            if (echo != null) correctClock(response.header(TIME), sent, clock.now());
            int status = response.status();
            if (status == 204 && echo != null) return new Answer(status, new JsonObject());
            if (status >= 500 && !isProblem(response)) return new Answer(status, new JsonObject());
            if (status < 200 || status >= 300 && status < 400 || status >= 400 && !isProblem(response)) {
                throw new ShopException(Kind.NO_SERVER, "another kind of server has answered, with status " + status);
            }
            return new Answer(status, Json.object(content));
        } catch (Json.FormatException error) {
            throw malformed(error);
        } catch (IOException error) {
            throw unreachable(error);
        }
    }

    /** The error for an answer that no server of this project gives. */
    static ShopException malformed(Json.FormatException error) {
        return new ShopException(Kind.NO_SERVER, "another kind of server has answered: " + error.getMessage(), error);
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
        Tokens tokens = tokens(session);
        Answer answer = send(method, path, body, tokens.access);
        if (answer.status != 401) return answer;
        answer = send(method, path, body, refreshed(session, tokens).access);
        if (answer.status == 401) throw answer.failure();
        return answer;
    }

    /** Opens a stream of events with the token of a session. The caller closes it. */
    ShopTransport.Response stream(State session, String path) throws ShopException, IOException {
        Tokens tokens = tokens(session);
        ShopTransport.Response response = stream(path, tokens);
        if (response.status() == 401) {
            response.close();
            response = stream(path, refreshed(session, tokens));
        }
        if (response.status() == 200) return response;
        int status = response.status();
        response.close();
        throw new ShopException(Kind.OFFLINE, "the server refuses the stream of events with status " + status);
    }

    private ShopTransport.Response stream(String path, Tokens tokens) throws IOException {
        return transport.send("GET", url + path, headers("text/event-stream", tokens.access), null);
    }

    private Tokens tokens(State session) throws ShopException {
        State now = store.state();
        Store.checkSame(session, now);
        if (now.tokens == null) throw new ShopException(Kind.LOG_IN_NEEDED, "no session is left: log in");
        return now.tokens;
    }

    /** Replaces tokens that the server has refused, once for all callers in all processes. */
    private Tokens refreshed(State session, Tokens refused) throws ShopException {
        return store.locked("session", () -> {
            Tokens tokens = tokens(session);
            if (tokens.number != refused.number) return tokens;
            JsonObject request = new JsonObject().put("grant_type", "refresh_token")
                .put("refresh_token", tokens.refresh);
            Answer answer = send("POST", "/v1/sessions", request, null);
            if (answer.isInvalidGrant()) {
                store.update(session, state -> {
                    state.tokens = null;
                    return true;
                });
                throw new ShopException(Kind.LOG_IN_NEEDED, "the server has ended the session");
            }
            JsonObject body = answer.success();
            try {
                Tokens next = new Tokens(body.text("access_token"), body.text("refresh_token"), tokens.number + 1);
                store.update(session, state -> {
                    state.tokens = next;
                    return true;
                });
                return next;
            } catch (Json.FormatException error) {
                throw malformed(error);
            }
        });
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

    private void correctClock(String text, long sent, long received) throws ShopException {
        if (text == null || !text.matches("[0-9]{1,15}")) return;
        long time = Long.parseLong(text);
        // The copy is thrown away if the correction is not worth a write.
        if (store.state().correctClock(time, sent, received)) {
            store.update(state -> state.correctClock(time, sent, received));
        }
    }
}
