/// The address and the limits of a listener.
///
/// The limits protect against broken, slow and hostile clients. The defaults suit a server on the Internet.
public struct ListenerConfiguration: Sendable {
    /// A certificate and its private key, as PEM files.
    public struct Certificate: Hashable, Sendable {
        /// The certificate, followed by its intermediate certificates.
        public var chainFile: String
        /// The private key.
        public var keyFile: String

        /// Creates a certificate from these files.
        public init(chainFile: String, keyFile: String) { (self.chainFile, self.keyFile) = (chainFile, keyFile) }
    }

    /// A host name or an IP address.
    public var host: String
    /// The port; 0 for any free port.
    public var port: Int
    /// The certificate for HTTPS: HTTP/2 or HTTP/1.1, negotiated by ALPN, over TLS 1.2 or later. `nil` for plain
    /// HTTP/1.1.
    public var certificate: Certificate?

    /// The maximum length of a body, in bytes; beyond it 413. The default allows a full batch.
    public var bodyByteCount = 16 << 20
    /// The maximum length of the header, including the request line, in bytes; beyond it 431.
    public var headerByteCount = 32 << 10
    /// The maximum number of header fields; beyond it 431.
    public var headerFieldCount = 100
    /// The total bytes of bodies over 64 KiB that are being received or processed; beyond it 503. One address may have
    /// a quarter; beyond that 429.
    public var totalBodyByteCount = 256 << 20
    /// The total bytes of long answers (over 64 KiB; over 4 KiB for HTTP/2) that clients have not received. One account
    /// or address may have a quarter. Beyond it, reads get 503, and conflicts omit the current value.
    public var totalAnswerByteCount = 256 << 20
    /// The maximum number of concurrent requests, at most half of them with a body that has not arrived; beyond it 503.
    /// An event stream counts until it has started.
    public var requestCount = 2_048
    /// The maximum number of concurrent requests of an address (for IPv6, of a /64); beyond it 429.
    public var addressRequestCount = 512
    /// The maximum number of open event streams; beyond it 503.
    public var streamCount = 16_384
    /// The maximum number of open event streams of an address; beyond it 429.
    public var addressStreamCount = 1_024
    /// The time for a body, in seconds from the end of the header. Each further period of this length must bring at
    /// least `leastByteRate` bytes for each of its seconds; otherwise 408.
    public var bodySeconds: Int64 = 30
    /// The minimum rate of a body that takes longer than `bodySeconds`, in bytes a second.
    public var leastByteRate = 16 << 10
    /// The time for an HTTP/1 header, in seconds from the start of the connection, or from the first byte of a later
    /// header. Beyond it the connection is closed.
    public var headerSeconds: Int64 = 20
    /// The time for a client to read 64 KiB of an answer, in seconds. Beyond it the connection is closed.
    public var writeSeconds: Int64 = 30
    /// The time between two requests of a connection, in seconds. Beyond it the connection is closed.
    public var idleSeconds: Int64 = 60
    /// The time for a TLS handshake, in seconds. Beyond it the connection is closed.
    public var handshakeSeconds: Int64 = 10
    /// The time without a byte in either direction, in seconds. Beyond it the connection is closed. Must be longer than
    /// the interval of the heartbeats of an event stream.
    public var silenceSeconds: Int64 = 120
    /// The maximum number of open connections. Beyond it a connection is closed as soon as it is accepted, except for a
    /// few loopback connections.
    public var connectionCount = 16_384
    /// The maximum number of open connections of an address (for IPv6, of a /64). Beyond it a connection is closed as
    /// soon as it is accepted. Loopback addresses and trusted proxies have no such limit.
    public var addressConnectionCount = 1_024
    /// The maximum number of connections that wait to be accepted.
    public var backlog = 4_096
    /// The time for requests in flight during shutdown, in seconds.
    public var shutdownSeconds: Int64 = 30
    /// The time for the rest of a body during shutdown, in seconds.
    public var lateBodySeconds: Int64 = 2
    /// The proxies whose `X-Forwarded-For` is trusted.
    public var trustedProxies = TrustedProxies()

    /// Creates a configuration with the default limits.
    public init(host: String = "127.0.0.1", port: Int = 8440, certificate: Certificate? = nil) {
        (self.host, self.port, self.certificate) = (host, port, certificate)
    }
}
