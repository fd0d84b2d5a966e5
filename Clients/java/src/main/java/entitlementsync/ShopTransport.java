package entitlementsync;

import java.io.*;
import java.util.Map;

/**
 * Sends requests of HTTP. {@link UrlTransport} uses the platform; an app that already has an HTTP client, such as
 * OkHttp, can implement this interface with it.
 *
 * <p>An implementation follows no redirects, keeps no cookies and no cache, and adds no compression that it does not
 * undo. Calls come from several threads.
 */
public interface ShopTransport {
    /**
     * Sends a request and returns its answer when the header has arrived.
     *
     * @param body the body, of the type {@code application/json}; null for none
     * @throws IOException if there is no answer; a {@code javax.net.ssl.SSLException} for an untrusted server
     */
    Response send(String method, String url, Map<String, String> headers, byte[] body) throws IOException;

    /** An answer of any status. The caller closes it. */
    interface Response extends Closeable {
        int status();

        /** The value of a header; null for none. */
        String header(String name);

        /** The body. A read fails if nothing arrives for 60 seconds. */
        InputStream body() throws IOException;
    }
}
