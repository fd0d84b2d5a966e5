package import SyncService

/// The address and the limits of a listener.
///
/// The limits protect against broken, slow and hostile clients. The defaults suit a server on the Internet. The
/// description of a limit states the HTTP status of a request that exceeds it, or that its connection is closed.
package struct ListenerConfiguration: Sendable {
    /// A certificate and its private key, as PEM files.
    package struct Certificate: Hashable, Sendable {
        /// The certificate, followed by its intermediate certificates.
        package var chainFile: String
        /// The private key.
        package var keyFile: String

        /// Creates a value with the paths of the two files.
        package init(chainFile: String, keyFile: String) { (self.chainFile, self.keyFile) = (chainFile, keyFile) }
    }

    /// A host name or an IP address.
    package var host: String
    /// The port; 0 for any free port.
    package var port: Int
    /// The path of a Unix socket to listen on, instead of ``host`` and ``port``.
    package var socketPath: String?
    /// The certificate for HTTPS: HTTP/2 or HTTP/1.1, negotiated by ALPN, over TLS 1.2 or later. `nil` for plain
    /// HTTP/1.1.
    package var certificate: Certificate?

    /// The maximum length of a body, in bytes (413). The default allows a full batch.
    package var bodyByteCount = 16 << 20
    /// The maximum length of the header with the request line, in bytes (431).
    package var headerByteCount = 32 << 10
    /// The maximum number of header fields (431).
    package var headerFieldCount = 100
    /// The maximum total length of all bodies over 64 KiB that are being received or processed, in bytes (503). The
    /// limit for one address is a quarter (429).
    package var totalBodyByteCount = 256 << 20
    /// The maximum total length of long answers that clients have not received, in bytes. An answer is long over 64
    /// KiB, or over 4 KiB for HTTP/2. The limit for one account or address is a quarter. Reads that exceed a limit get
    /// 503; conflicts then omit the current value.
    package var totalAnswerByteCount = 256 << 20
    /// The maximum number of concurrent requests (503). The limit for requests whose body has not arrived is half of
    /// it. An event stream counts until it has started.
    package var requestCount = 2_048
    /// The maximum number of concurrent requests of one address, or of one /64 for IPv6 (429).
    package var addressRequestCount = 512
    /// The maximum number of open event streams (503).
    package var streamCount = 16_384
    /// The maximum number of open event streams of one address, or of one /64 for IPv6 (429).
    package var addressStreamCount = 1_024
    /// The time limit for a body, in seconds from the end of the header (408). It is extended by the same time as long
    /// as the body arrives at ``minimumByteRate`` or faster.
    package var bodySeconds: Int64 = 30
    /// The minimum rate of a body that takes longer than ``bodySeconds``, in bytes per second.
    package var minimumByteRate = 16 << 10
    /// The time limit for an HTTP/1 header, in seconds from the start of the connection, or from the first byte of a
    /// later header. Then the connection is closed.
    package var headerSeconds: Int64 = 20
    /// The time limit for a client to read 64 KiB of an answer, in seconds. Then the connection is closed.
    package var writeSeconds: Int64 = 30
    /// The maximum time between two requests of a connection, in seconds. Then the connection is closed.
    package var idleSeconds: Int64 = 60
    /// The time limit for a TLS handshake, in seconds. Then the connection is closed.
    package var handshakeSeconds: Int64 = 10
    /// The maximum time without a byte in either direction, in seconds. Then the connection is closed. Must be longer
    /// than the heartbeat interval of event streams.
    package var silenceSeconds: Int64 = 120
    /// The maximum number of open connections. Further connections are closed as soon as they are accepted, except for
    /// a few from loopback addresses.
    package var connectionCount = 16_384
    /// The maximum number of open connections of one address, or of one /64 for IPv6. Further connections are closed as
    /// soon as they are accepted. Loopback addresses and trusted proxies are exempt.
    package var addressConnectionCount = 1_024
    /// The maximum number of connections that wait to be accepted.
    package var backlog = 4_096
    /// The time limit for requests in flight at shutdown, in seconds.
    package var shutdownSeconds: Int64 = 30
    /// The time limit for the rest of a body at shutdown, in seconds.
    package var lateBodySeconds: Int64 = 2
    /// The proxies whose `X-Forwarded-For` is trusted.
    package var trustedProxies = TrustedProxies()

    /// Creates a configuration with the default limits.
    package init(host: String = "127.0.0.1", port: Int = 8440, certificate: Certificate? = nil) {
        (self.host, self.port, self.certificate) = (host, port, certificate)
    }
}
