/// Where a server listens, and what it puts up with. The limits are against clients that are broken, slow or hostile;
/// the usual values suit a server that faces the network.
public struct ListenerConfiguration: Sendable {
    /// A certificate and its private key, as PEM files.
    public struct Certificate: Hashable, Sendable {
        /// The certificate, and those of its issuers after it.
        public var chainFile: String
        /// The private key.
        public var keyFile: String

        /// A certificate in these files.
        public init(chainFile: String, keyFile: String) { (self.chainFile, self.keyFile) = (chainFile, keyFile) }
    }

    /// The address, a name or numbers.
    public var host: String
    /// The port; 0 for one that is free.
    public var port: Int
    /// For HTTPS: HTTP/2 and HTTP/1.1, as client and server agree (ALPN), by TLS 1.2 or later. Plain HTTP/1.1 for
    /// `nil`.
    public var certificate: Certificate?

    /// The longest body, in bytes; a longer one is 413. It leaves room for a full batch.
    public var bodyByteCount = 16 << 20
    /// The longest field of a header, and all of them together, in bytes; the request line counts as one.
    public var headerByteCount = 32 << 10
    /// How many fields a header has, at most.
    public var headerFieldCount = 100
    /// How many bytes the bodies under way may have together that are longer than 64 KiB, and that are being received
    /// or worked at; whoever comes with more gets 503.
    public var totalBodyByteCount = 256 << 20
    /// How many bytes the answers may have together that are longer than 64 KiB, and that their readers have not taken
    /// yet, and four times as many as those of one caller; who only reads, and would have more, gets 503.
    public var totalAnswerByteCount = 256 << 20
    /// How many requests may be under way at once, open streams of events not counted; one more gets 503.
    public var requestCount = 2_048
    /// How long a body may take from the end of its header on, in seconds, and how long each further part of
    /// `leastByteRate` times as many bytes; then it is 408.
    public var bodySeconds: Int64 = 30
    /// How many bytes a second of a body have to come after the first `bodySeconds`.
    public var leastByteRate = 16 << 10
    /// How long a header of HTTP/1 may take from the connection's beginning, or from its own first byte after another
    /// request, in seconds; the connection is closed then.
    public var headerSeconds: Int64 = 20
    /// How long a reader may take for 64 KiB of an answer, in seconds; the connection is closed then.
    public var writeSeconds: Int64 = 30
    /// How long a connection may be silent between two requests, in seconds.
    public var idleSeconds: Int64 = 60
    /// How long a connection may take until it is encrypted, in seconds.
    public var handshakeSeconds: Int64 = 10
    /// How long a connection may carry nothing in either direction, whatever is asked over it, in seconds. More than
    /// the pause between two heartbeats of an event stream.
    public var silenceSeconds: Int64 = 120
    /// How many connections there are at once, at most; one more is closed as soon as it is accepted. A few of the
    /// machine's own programs are let in beyond that.
    public var connectionCount = 16_384
    /// How many connections there are of one address (of IPv6, of one /64), at most; one more is closed at once. The
    /// machine's own programs, and trusted proxies, have no such limit.
    public var addressConnectionCount = 1_024
    /// How many connections wait there, at most.
    public var backlog = 4_096
    /// How long what is under way may take when the server is to end, in seconds.
    public var shutdownSeconds: Int64 = 30
    /// How long a body may take that has not come when the server is to end, in seconds.
    public var lateBodySeconds: Int64 = 2
    /// Who is believed about for whom he asks.
    public var trustedProxies = TrustedProxies()

    /// The usual limits at `host` and `port`.
    public init(host: String = "127.0.0.1", port: Int = 8440, certificate: Certificate? = nil) {
        (self.host, self.port, self.certificate) = (host, port, certificate)
    }
}
