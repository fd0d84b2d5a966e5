/// The address and the limits of a listener.
///
/// The limits are against clients that are broken, slow or hostile. The defaults suit a server that faces the network.
public struct ListenerConfiguration: Sendable {
    /// A certificate and its private key, as PEM files.
    public struct Certificate: Hashable, Sendable {
        /// The certificate, followed by those of its issuers.
        public var chainFile: String
        /// The private key.
        public var keyFile: String

        /// A certificate in these files.
        public init(chainFile: String, keyFile: String) { (self.chainFile, self.keyFile) = (chainFile, keyFile) }
    }

    /// A host name or an IP address.
    public var host: String
    /// The port; 0 for a free one.
    public var port: Int
    /// The certificate for HTTPS: HTTP/2 or HTTP/1.1, negotiated by ALPN, over TLS 1.2 or later. Plain HTTP/1.1 when
    /// `nil`.
    public var certificate: Certificate?

    /// The longest body, in bytes; a longer one is 413. It leaves room for a full batch.
    public var bodyByteCount = 16 << 20
    /// The longest header field, and all fields together, in bytes; the request line counts as one. Beyond it: 431.
    public var headerByteCount = 32 << 10
    /// The most fields in a header. Beyond it: 431.
    public var headerFieldCount = 100
    /// The bytes of all bodies longer than 64 KiB that are being received or worked on. Beyond it, and for an address
    /// beyond a quarter of it, 503 or 429.
    public var totalBodyByteCount = 256 << 20
    /// The bytes of all long answers (more than 64 KiB; over HTTP/2, more than 4 KiB) that their clients have not taken
    /// yet; one account or address may hold a quarter. Beyond it, reads are 503, and conflicts are reported without the
    /// current value.
    public var totalAnswerByteCount = 256 << 20
    /// The requests under way at once; half as many may have a body that is still to come. Beyond it: 503. A stream of
    /// events counts until it has begun.
    public var requestCount = 2_048
    /// The requests of one address (of IPv6, of one /64) under way at once. Beyond it: 429.
    public var addressRequestCount = 512
    /// The open streams of events. Beyond it: 503.
    public var streamCount = 16_384
    /// The open streams of events of one address. Beyond it: 429.
    public var addressStreamCount = 1_024
    /// The time for a body, in seconds from the end of its header, and for each further part of `leastByteRate` times
    /// as many bytes. Beyond it: 408.
    public var bodySeconds: Int64 = 30
    /// The least rate of a body after the first `bodySeconds`, in bytes a second.
    public var leastByteRate = 16 << 10
    /// The time for a header of HTTP/1, in seconds from the start of the connection, or from its first byte after
    /// another request. Beyond it the connection is closed.
    public var headerSeconds: Int64 = 20
    /// The time for a client to take 64 KiB of an answer, in seconds. Beyond it the connection is closed.
    public var writeSeconds: Int64 = 30
    /// The time between two requests of a connection, in seconds. Beyond it the connection is closed.
    public var idleSeconds: Int64 = 60
    /// The time for a TLS handshake, in seconds. Beyond it the connection is closed.
    public var handshakeSeconds: Int64 = 10
    /// The time in which a connection carries nothing in either direction, in seconds. Longer than the pause between
    /// two heartbeats of an event stream. Beyond it the connection is closed.
    public var silenceSeconds: Int64 = 120
    /// The open connections. Beyond it a connection is closed as soon as it is accepted. A few of the machine's own
    /// programs are accepted beyond that.
    public var connectionCount = 16_384
    /// The open connections of one address (of IPv6, of one /64). Beyond it a connection is closed as soon as it is
    /// accepted. The machine's own programs and trusted proxies have no such limit.
    public var addressConnectionCount = 1_024
    /// The connections that wait to be accepted.
    public var backlog = 4_096
    /// The time for what is under way when the server ends, in seconds.
    public var shutdownSeconds: Int64 = 30
    /// The time for the rest of a body when the server ends, in seconds.
    public var lateBodySeconds: Int64 = 2
    /// The proxies whose `X-Forwarded-For` is trusted.
    public var trustedProxies = TrustedProxies()

    /// The default limits at `host` and `port`.
    public init(host: String = "127.0.0.1", port: Int = 8440, certificate: Certificate? = nil) {
        (self.host, self.port, self.certificate) = (host, port, certificate)
    }
}
