import CCurl
import HTTPTypes
import SyncProtocol

/// A libcurl handle, reused for one exchange after the other, with the state of the current exchange.
final class CurlHandle {
    let easy: UnsafeMutableRawPointer
    private(set) var receiver: CurlJob.Receiver?
    private(set) var hasToldHead = false
    /// The time at which a silent stream times out; `nil` while the timeout is suspended.
    private(set) var deadline: ContinuousClock.Instant?
    private(set) var began: ContinuousClock.Instant?

    private let configuration: CurlClient.Configuration
    /// The buffer for libcurl's error message.
    private let text: UnsafeMutablePointer<CChar>
    /// The settings of the previous exchange: an idle device repeats the same request.
    private var settings: Settings?
    /// The header of `settings`, which libcurl reads while it sends.
    private var list: UnsafeMutablePointer<curl_slist>?
    /// The body, which libcurl reads while it sends. The storage of an array cannot be borrowed for so long.
    private var sentBody: UnsafeMutableRawBufferPointer?
    private var head: ResponseHead
    private var body: [UInt8] = []
    private var maximumByteCount = Int.max
    private var mayRepeat = false
    private var requestID: String?
    private var sentCount = 0
    private var failure: TransportError?
    private var idleTimeout: Duration?
    /// The last address to which the exchange must not connect, as text.
    private var refusedAddress: String?

    init(_ configuration: CurlClient.Configuration) throws(TransportError) {
        guard let easy = curl_easy_init() else { throw .curl("libcurl cannot create a handle") }
        self.easy = easy
        self.configuration = configuration
        text = .allocate(capacity: Int(CURL_ERROR_SIZE))
        text.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        head = ResponseHead(maximumByteCount: configuration.maximumHeaderByteCount)
        let context = Unmanaged.passUnretained(self).toOpaque()
        try Self.check(ccurl_set_pointer(easy, CURLOPT_ERRORBUFFER, text), "ERRORBUFFER")
        try Self.check(ccurl_set_pointer(easy, CURLOPT_WRITEDATA, context), "WRITEDATA")
        try Self.check(ccurl_set_pointer(easy, CURLOPT_HEADERDATA, context), "HEADERDATA")
        try Self.check(ccurl_set_pointer(easy, CURLOPT_PREREQDATA, context), "PREREQDATA")
        try Self.check(ccurl_set_write_function(easy, CURLOPT_WRITEFUNCTION, receiveBody), "WRITEFUNCTION")
        try Self.check(ccurl_set_write_function(easy, CURLOPT_HEADERFUNCTION, receiveLine), "HEADERFUNCTION")
        try Self.check(ccurl_set_prereq_function(easy, allowSending), "PREREQFUNCTION: it is older than 7.80")
        if configuration.addresses != .any {
            try Self.check(ccurl_set_pointer(easy, CURLOPT_OPENSOCKETDATA, context), "OPENSOCKETDATA")
            try Self.check(ccurl_set_opensocket_function(easy, openSocket), "OPENSOCKETFUNCTION")
        }
        try Self.setUp(easy, configuration)
    }

    deinit {
        curl_easy_cleanup(easy)
        recycle()
        curl_slist_free_all(list)
        text.deallocate()
    }

    /// True if the request may have reached the server because it was handed to a connection.
    var isSent: Bool { sentCount > 0 }
    /// True if the exchange has an idle timeout.
    var isWatched: Bool { idleTimeout != nil }

    private static func setUp(
        _ easy: UnsafeMutableRawPointer, _ configuration: CurlClient.Configuration
    ) throws(TransportError) {
        let numbers: [(CURLoption, Int)] = [
            (CURLOPT_NOSIGNAL, 1), (CURLOPT_PATH_AS_IS, 1), (CURLOPT_SUPPRESS_CONNECT_HEADERS, 1),
            (CURLOPT_DISALLOW_USERNAME_IN_URL, 1), (CURLOPT_TCP_KEEPALIVE, 1), (CURLOPT_FOLLOWLOCATION, 0),
            (CURLOPT_NETRC, 0), (CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS)),
            (CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)),
        ]
        for (option, value) in numbers { try check(ccurl_set_long(easy, option, value), "\(option.rawValue)") }
        try check(ccurl_set_protocols(easy), "PROTOCOLS")
        try check(ccurl_set_close_on_exec(easy), "SOCKOPTFUNCTION")
        if let agent = configuration.userAgent {
            try check(ccurl_set_text(easy, CURLOPT_USERAGENT, agent), "USERAGENT")
        }
        if let folder = configuration.defaultAuthorityFolder {
            try check(ccurl_set_text(easy, CURLOPT_CAPATH, folder), "CAPATH")
        }
        try setTrust(configuration.trust, of: easy)
        if !configuration.verifiesServer {
            try check(ccurl_set_long(easy, CURLOPT_SSL_VERIFYPEER, 0), "SSL_VERIFYPEER")
            try check(ccurl_set_long(easy, CURLOPT_SSL_VERIFYHOST, 0), "SSL_VERIFYHOST")
        }
        switch configuration.proxy {
        case .environment: break
        case .none: try check(ccurl_set_text(easy, CURLOPT_PROXY, ""), "PROXY")
        case .server(let address):
            try check(ccurl_set_text(easy, CURLOPT_PROXY, address), "PROXY")
            try check(ccurl_set_text(easy, CURLOPT_NOPROXY, ""), "NOPROXY")
        }
    }

    private static func setTrust(
        _ trust: CurlClient.Configuration.Trust, of easy: UnsafeMutableRawPointer
    ) throws(TransportError) {
        switch trust {
        case .system: return
        case .file(let path): try check(ccurl_set_text(easy, CURLOPT_CAINFO, path), "CAINFO")
        case .pem(var bytes):
            let code = bytes.withUnsafeMutableBytes { ccurl_set_certificates(easy, $0.baseAddress, $0.count) }
            try check(code, "CAINFO_BLOB")
        }
        // Debian's libcurl also trusts a default folder of authorities, in addition to the given certificates.
        let code = ccurl_set_text(easy, CURLOPT_CAPATH, nil)
        // TLS libraries that are not derived from OpenSSL may have no such folder, and then no default.
        if code != CURLE_NOT_BUILT_IN, code != CURLE_UNKNOWN_OPTION { try check(code, "CAPATH") }
    }

    private static func check(_ code: CURLcode, _ option: String) throws(TransportError) {
        guard code != CURLE_OK else { return }
        throw .curl("libcurl refuses option \(option): \(String(cString: curl_easy_strerror(code)))")
    }

    /// Prepares the exchange of `job`.
    func begin(_ job: CurlJob, now: ContinuousClock.Instant) throws(TransportError) {
        recycle()
        receiver = job.receiver
        do throws(TransportError) {
            try set(job)
        } catch {
            settings = nil
            recycle()
            throw error
        }
        mayRepeat = job.message.method == "GET" || job.message.method == "HEAD"
        requestID = job.message.requestID
        switch job.receiver {
        case .whole(_, let maximum): maximumByteCount = maximum
        case .stream(_, _, let idleTimeout): self.idleTimeout = idleTimeout
        }
        deadline = idleTimeout.map { now + $0 }
        began = now
    }

    private func set(_ job: CurlJob) throws(TransportError) {
        let (message, before) = (job.message, settings)
        let next = Settings(job)
        if before?.method != next.method || before?.sendsBody != next.sendsBody || next.sendsBody {
            try setMethod(message)
        }
        if before?.url != next.url { try Self.check(ccurl_set_text(easy, CURLOPT_URL, next.url), "URL") }
        if before?.lines != next.lines { try setHeader(next.lines) }
        if before?.timeout != next.timeout {
            try Self.check(ccurl_set_long(easy, CURLOPT_TIMEOUT_MS, next.timeout), "TIMEOUT_MS")
        }
        if before?.connectTimeout != next.connectTimeout {
            try Self.check(ccurl_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, next.connectTimeout), "CONNECTTIMEOUT_MS")
        }
        if before?.isSecure != next.isSecure {
            // With TLS a second request waits for the first connection, which may turn out to carry both.
            try Self.check(ccurl_set_long(easy, CURLOPT_PIPEWAIT, next.isSecure ? 1 : 0), "PIPEWAIT")
        }
        if configuration.proxy == .environment, before?.isLocal != next.isLocal {
            try Self.check(ccurl_set_text(easy, CURLOPT_NOPROXY, next.isLocal ? "*" : nil), "NOPROXY")
        }
        settings = next
    }

    private func setMethod(_ message: CurlMessage) throws(TransportError) {
        // Resets the method and body options of the previous exchange.
        try Self.check(ccurl_set_long(easy, CURLOPT_HTTPGET, 1), "HTTPGET")
        if message.method == "HEAD" {
            try Self.check(ccurl_set_long(easy, CURLOPT_NOBODY, 1), "NOBODY")
        } else if message.sendsBody {
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(message.body.count, 1), alignment: 1)
            copy.copyBytes(from: message.body)
            sentBody = copy
            let count = curl_off_t(message.body.count)
            try Self.check(ccurl_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, count), "POSTFIELDSIZE")
            try Self.check(ccurl_set_pointer(easy, CURLOPT_POSTFIELDS, copy.baseAddress), "POSTFIELDS")
        }
        let isUsual = message.method == "GET" || message.method == "HEAD"
        try Self.check(ccurl_set_text(easy, CURLOPT_CUSTOMREQUEST, isUsual ? nil : message.method), "CUSTOMREQUEST")
    }

    private func setHeader(_ lines: [String]) throws(TransportError) {
        var longer: UnsafeMutablePointer<curl_slist>?
        for line in lines {
            guard let list = curl_slist_append(longer, line) else {
                curl_slist_free_all(longer)
                throw .curl("out of memory")
            }
            longer = list
        }
        let code = ccurl_set_list(easy, CURLOPT_HTTPHEADER, longer)
        curl_slist_free_all(list)
        list = longer
        try Self.check(code, "HTTPHEADER")
    }

    /// The duration in milliseconds, at least 1, because 0 means no timeout.
    fileprivate static func milliseconds(_ duration: Duration) -> Int {
        let (seconds, rest) = duration.components
        guard seconds < 1_000_000 else { return 1_000_000_000 }
        return max(Int(seconds) * 1_000 + Int((rest + 999_999_999_999_999) / 1_000_000_000_000_000), 1)
    }

    /// Discards the state of the exchange.
    func recycle() {
        receiver = nil
        sentBody?.deallocate()
        sentBody = nil
        head.reset()
        body = []
        (maximumByteCount, sentCount, mayRepeat) = (.max, 0, false)
        (hasToldHead, failure, deadline, idleTimeout, requestID) = (false, nil, nil, nil, nil)
        refusedAddress = nil
        text.pointee = 0
    }
}

/// The settings of an exchange that libcurl keeps until they are replaced.
private struct Settings {
    let url: String
    let method: String
    let sendsBody: Bool
    let lines: [String]
    let timeout: Int
    let connectTimeout: Int
    let isSecure: Bool
    let isLocal: Bool

    init(_ job: CurlJob) {
        url = job.message.url
        method = job.message.method
        sendsBody = job.message.sendsBody
        lines = job.message.lines
        timeout = job.timeout.map(CurlHandle.milliseconds) ?? 0
        connectTimeout = CurlHandle.milliseconds(job.connectTimeout)
        isSecure = job.message.isSecure
        isLocal = job.message.isLocal
    }
}

extension CurlHandle {
    /// The outcome of an exchange that libcurl ended with `code`.
    func outcome(of code: CURLcode) -> Result<TransportAnswer, TransportError> {
        if let failure { return .failure(failure) }
        let isEnough = configuration.ignoresRest && head.isComplete
        if code != CURLE_OK, !isEnough { return .failure(error(of: code)) }
        // libcurl accepts a truncated header.
        guard let response = head.response, head.isComplete else {
            return .failure(
                TransportError(.interrupted, mayHaveArrived: isSent, message: "the connection ended in the header"))
        }
        return .success(TransportAnswer(response, body: body))
    }

    private func error(of code: CURLcode) -> TransportError {
        var kind = TransportError.Kind(code)
        // The request was sent once, and the repetition did not reach the server.
        if isSent, kind == .unreachable || kind == .untrusted { kind = .interrupted }
        // The code of libcurl 7 for a line beyond its own limit.
        if isSent, !head.isComplete, code == CURLE_OUT_OF_MEMORY { kind = .tooLarge }
        if let refusedAddress, kind == .unreachable {
            let isPublicOnly = configuration.addresses == .publicOnly
            return TransportError(
                kind, mayHaveArrived: false,
                message: "the host is at \(refusedAddress), which is \(isPublicOnly ? "not public" : "public")")
        }
        let detail = String(cString: text)
        let message = detail.isEmpty ? String(cString: curl_easy_strerror(code)) : detail
        return TransportError(
            kind, mayHaveArrived: isSent,
            message: message.split(whereSeparator: \.isNewline).joined(separator: " "))
    }

    /// Resumes a stream that was paused because its buffer was full.
    func resume() {
        extendDeadline()
        curl_easy_pause(easy, CURLPAUSE_CONT)
    }

    private func extendDeadline() {
        if let idleTimeout { deadline = ContinuousClock().now + idleTimeout }
    }

    private func fail(_ kind: TransportError.Kind, _ message: String) {
        if failure == nil { failure = TransportError(kind, mayHaveArrived: isSent, message: message) }
    }

    /// Returns `true` if the request may be handed to a connection.
    fileprivate func maySend() -> Bool {
        guard sentCount == 0 || mayRepeat else {
            fail(.interrupted, "the connection ended before the answer")
            return false
        }
        sentCount += 1
        return true
    }

    /// Returns `true` if the exchange may connect to an IP address of 4 or 16 bytes.
    fileprivate func mayConnect(to address: [UInt8]) -> Bool {
        guard IPAddress.isPublic(address) == (configuration.addresses == .publicOnly) else {
            refusedAddress = IPAddress.text(of: address)
            return false
        }
        return true
    }

    fileprivate func receive(line: UnsafeRawBufferPointer) -> Bool {
        extendDeadline()
        if let error = head.add(line) {
            fail(error.kind, error.message)
            return false
        }
        guard head.isComplete, !hasToldHead, let response = head.response else { return true }
        // Failing the exchange closes its connection, or its HTTP/2 stream; other exchanges have their own.
        guard response.matchesRequestID(requestID: requestID) else {
            failure = failure ?? .mismatchedAnswer
            return false
        }
        switch receiver {
        case .stream(let continuation, _, _):
            hasToldHead = true
            continuation.resume(returning: .success(response))
        case .whole:
            hasToldHead = true
            if let length = head.contentLength { body.reserveCapacity(min(length, maximumByteCount, 1 << 20)) }
        case nil: return false
        }
        return true
    }

    fileprivate func receive(body bytes: UnsafeRawBufferPointer) -> Int {
        extendDeadline()
        guard case .stream(_, let buffer, _) = receiver else {
            guard bytes.count <= maximumByteCount - body.count else {
                if configuration.ignoresRest { return -1 }
                fail(.tooLarge, "the answer has more than \(maximumByteCount) bytes")
                return -1
            }
            body.append(contentsOf: bytes)
            return bytes.count
        }
        if buffer.offer(bytes) { return bytes.count }
        // No idle timeout while the reader does not read.
        deadline = nil
        return Int(CURL_WRITEFUNC_PAUSE)
    }
}

private func handle(_ context: UnsafeMutableRawPointer?) -> CurlHandle? {
    context.map { Unmanaged<CurlHandle>.fromOpaque($0).takeUnretainedValue() }
}

/// A return value other than the number of bytes, which ends the exchange.
private let refusal = Int.max

private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    let taken = handle(context)?.receive(body: UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? -1
    return taken < 0 ? refusal : taken
}

private func receiveLine(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
    return handle(context)?.receive(line: line) == true ? line.count : refusal
}

private func allowSending(
    _ context: UnsafeMutableRawPointer?, _ remote: UnsafeMutablePointer<CChar>?, _ local: UnsafeMutablePointer<CChar>?,
    _ remotePort: Int32, _ localPort: Int32
) -> Int32 {
    handle(context)?.maySend() == true ? Int32(CURL_PREREQFUNC_OK) : Int32(CURL_PREREQFUNC_ABORT)
}

private func openSocket(
    _ context: UnsafeMutableRawPointer?, _ purpose: curlsocktype, _ address: UnsafeMutablePointer<curl_sockaddr>?
) -> curl_socket_t {
    var bytes = [UInt8](repeating: 0, count: 16)
    guard let address else { return CURL_SOCKET_BAD }
    let count = ccurl_ip_address(address, &bytes)
    guard count > 0, handle(context)?.mayConnect(to: Array(bytes.prefix(count))) == true else { return CURL_SOCKET_BAD }
    return ccurl_open_socket(address)
}
