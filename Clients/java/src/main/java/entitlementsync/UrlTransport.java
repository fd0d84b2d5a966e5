package entitlementsync;

import java.io.*;
import java.net.*;
import java.util.Map;

/** Sends requests with {@link HttpURLConnection}, which every Java and every Android has. */
public final class UrlTransport implements ShopTransport {
    private static final int CONNECT_TIMEOUT = 15_000;
    /** The server sends a heartbeat in event streams every 15 seconds. */
    private static final int READ_TIMEOUT = 60_000;

    @Override public Response send(String method, String url, Map<String, String> headers, byte[] body)
        throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(url).openConnection();
        connection.setRequestMethod(method);
        connection.setInstanceFollowRedirects(false);
        connection.setUseCaches(false);
        connection.setConnectTimeout(CONNECT_TIMEOUT);
        connection.setReadTimeout(READ_TIMEOUT);
        headers.forEach(connection::setRequestProperty);
        if (body != null) {
            connection.setDoOutput(true);
            // Without a streaming mode: in one, the platform throws instead of returning a 401.
            try (OutputStream out = connection.getOutputStream()) { out.write(body); }
        }
        int status = connection.getResponseCode();
        if (status < 100) throw new IOException("the answer is not HTTP");
        InputStream content = status < 400 ? connection.getInputStream() : connection.getErrorStream();
        InputStream stream = content == null ? new ByteArrayInputStream(new byte[0]) : content;
        return new Response() {
            @Override public int status() { return status; }

            @Override public String header(String name) { return connection.getHeaderField(name); }

            @Override public InputStream body() { return stream; }

            @Override public void close() throws IOException { stream.close(); }
        };
    }
}
