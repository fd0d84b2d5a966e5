import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

/// Sends requests to one store API and repeats those that failed for a passing reason.
///
/// Every request that passes through here is safe to repeat.
struct StoreAPIConnection: Sendable {
    /// A request before its credentials are added.
    struct Call: Sendable {
        var request: HTTPRequest
        var body: [UInt8] = []
    }

    /// The maximum length of a response. A page has at most 20 statements of up to 64 KiB, or 1,000 short entries.
    static let maximumByteCount = 4 << 20
    private static let timeout = Duration.seconds(30)
    /// Numbers above this are dates in milliseconds: as seconds they would be a pause of 3,000 years.
    private static let smallestDate: Int64 = 100_000_000_000

    /// The name of the API for messages.
    let api: String
    /// The address of the API, without a slash at the end.
    let baseURL: String
    let transport: any HTTPTransport
    let host: HostServices
    let retries: RetryPolicy

    /// - Throws: `invalidArgument` for an address to which credentials may not be sent.
    init(
        api: String, baseURL: String, transport: any HTTPTransport, host: HostServices, retries: RetryPolicy
    ) throws(StoreAPIError) {
        self.baseURL = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        (self.api, self.transport, self.host, self.retries) = (api, transport, host, retries)
        _ = try Self.request(.get, self.baseURL, setting: "the address of \(api)")
    }

    /// Returns a request for `address`.
    ///
    /// - Throws: `invalidArgument` if the address is not a URL to which credentials may be sent: https, or http on
    ///   this machine.
    static func request(
        _ method: HTTPRequest.Method, _ address: String, setting: String
    ) throws(StoreAPIError) -> HTTPRequest {
        guard var request = FetchRequest.get(address), let authority = request.authority else {
            throw StoreAPIError(.invalidArgument, "\(setting) must be an https URL, not \(address)")
        }
        let name = authority.hasPrefix("[") ? authority.prefix { $0 != "]" } + "]" : authority.prefix { $0 != ":" }
        guard request.scheme == "https" || ["127.0.0.1", "[::1]", "localhost"].contains(name) else {
            throw StoreAPIError(.invalidArgument, "\(setting) must be an https URL, not \(address)")
        }
        request.method = method
        return request
    }

    /// Encodes a path segment or a query value: everything but unreserved characters (RFC 3986, section 2.3).
    ///
    /// - Throws: `invalidArgument` if `text` is empty or a relative path segment.
    static func encode(_ text: String, _ name: String) throws(StoreAPIError) -> String {
        guard !text.isEmpty, text != ".", text != "..", text.utf8.count <= 4_096 else {
            throw StoreAPIError(.invalidArgument, "\(name) must have 1 to 4,096 bytes and be neither . nor ..")
        }
        return text.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(UnicodeScalar(byte))
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
    }

    /// Sends a request for a path of the API with a JSON body, as ``send(_:authorize:explain:)`` does.
    func send(
        _ method: HTTPRequest.Method, _ path: String, json: [UInt8],
        authorize: (inout HTTPRequest) async throws(StoreAPIError) -> Void,
        explain: (_ status: Int, _ problem: StoreAPIProblem) -> StoreAPIError?
    ) async throws(StoreAPIError) -> [UInt8] {
        var request = try Self.request(method, baseURL + path, setting: "the address of \(api)")
        if !json.isEmpty { request.headerFields[.contentType] = "application/json" }
        return try await send(Call(request: request, body: json), authorize: authorize, explain: explain)
    }

    /// Sends `call` until it succeeds or no retry is left, and returns the body of the successful response.
    ///
    /// - Parameters:
    ///   - authorize: Adds credentials. It runs before each attempt, since they may expire during a pause.
    ///   - explain: Returns the error of a status that no retry can change.
    func send(
        _ call: Call, authorize: (inout HTTPRequest) async throws(StoreAPIError) -> Void = { _ in },
        explain: (_ status: Int, _ problem: StoreAPIProblem) -> StoreAPIError?
    ) async throws(StoreAPIError) -> [UInt8] {
        var failedAttempts = 0
        var waited = Duration.zero
        while true {
            var request = call.request
            try await authorize(&request)
            let failure: StoreAPIError
            var asked = Duration.zero
            do throws(TransportError) {
                let answer = try await transport.send(
                    request, body: call.body, timeout: Self.timeout, maximumByteCount: Self.maximumByteCount)
                if answer.response.status.kind == .successful { return answer.body }
                failure = self.failure(answer, explain: explain)
                asked = pause(answer.response)
            } catch {
                failure = StoreAPIError(error, api: api, maximumByteCount: Self.maximumByteCount)
                guard error.kind != .untrusted else { throw failure }
            }
            guard failure.kind == .unavailable || failure.kind == .rateLimited else { throw failure }
            failedAttempts += 1
            var generator = host.generator
            // The random pause is added to the requested one. Otherwise servers that were rejected together would
            // return together.
            guard
                let delay = retries.delay(
                    afterFailedAttempts: failedAttempts, waited: waited + asked, using: &generator)
            else { throw failure }
            waited += delay + asked
            do {
                try await host.sleep(for: delay + asked)
            } catch {
                throw StoreAPIError(.cancelled, status: failure.status, "cancelled before a retry of \(failure)")
            }
        }
    }

    /// Reads the members of a response.
    ///
    /// - Throws: `malformed` if `body` is not JSON, has a duplicate member, or lacks a member.
    func read<Value>(
        _ body: [UInt8], _ read: (JSONObjectReader) throws(InputError) -> Value
    ) throws(StoreAPIError) -> Value {
        guard let value = try? JSON(parsing: body) else {
            throw StoreAPIError(.malformed, "\(api) answered with bytes that are not JSON, or with a duplicate member")
        }
        do throws(InputError) { return try read(try JSONReader(value).object()) } catch {
            throw StoreAPIError(.malformed, "\(api) answered with JSON of another form: \(error)")
        }
    }

    private func failure(
        _ answer: TransportAnswer, explain: (_ status: Int, _ problem: StoreAPIProblem) -> StoreAPIError?
    ) -> StoreAPIError {
        let status = answer.response.status.code
        let problem = StoreAPIProblem(body: answer.body)
        switch status {
        case 429:
            return StoreAPIError(
                .rateLimited, status: status, "\(api) limits the rate of requests\(problem); try again later")
        case _ where (500...599).contains(status) || (status == 404 && problem.isPassing):
            return StoreAPIError(
                .unavailable, status: status, "\(api) answered \(status)\(problem); try again later")
        default:
            return explain(status, problem)
                ?? StoreAPIError(.rejected, status: status, "\(api) answered \(status)\(problem)")
        }
    }

    /// The pause that the store asks for. Apple sends the date at which the pause ends, in milliseconds since 1970
    /// UTC, in place of the form of RFC 9110.
    private func pause(_ response: HTTPResponse) -> Duration {
        if let field = response.headerFields[.retryAfter], let number = Int64(field), number >= Self.smallestDate {
            let (pause, isTooLong) = number.subtractingReportingOverflow(host.now())
            return isTooLong ? RetryAfter.maximum : min(max(.milliseconds(pause), .zero), RetryAfter.maximum)
        }
        return RetryAfter.pause(of: response) ?? .zero
    }
}

/// The tokens of the pages that were read, which reveal a list without an end.
struct PageTokens {
    /// The maximum number of pages of one list.
    static let maximumCount = 100_000
    private static let maximumByteCount = 4_096

    private let api: String
    private var known: Set<String> = []

    init(api: String) { self.api = api }

    /// Adds the token of the next page.
    ///
    /// - Throws: `malformed` without a usable token, `endless` for a repeated one.
    mutating func next(_ token: String?) throws(StoreAPIError) -> String {
        guard let token, !token.isEmpty, token.utf8.count <= Self.maximumByteCount else {
            throw StoreAPIError(.malformed, "\(api) announced another page without a usable token")
        }
        guard known.count < Self.maximumCount else {
            throw StoreAPIError(.endless, "\(api) has more than \(Self.maximumCount) pages; ask for a shorter period")
        }
        guard known.insert(token).inserted else {
            throw StoreAPIError(.endless, "\(api) repeated the token of a page; ask for a shorter period")
        }
        return token
    }
}
