import Entitlements
import Foundation
import HTTPTypes
import SyncCore
import SyncProtocol
import SyncServer

/// A server that a check asks. Every request has a time limit.
struct RemoteHost: Sendable {
    /// The time limit of each request.
    static let limit = Duration.seconds(5)

    let scheme: String
    let host: String
    let port: Int?
    /// The path before that of a request, without a slash at its end.
    let path: String
    let transport: any HTTPTransport

    /// - Parameter address: an address with the scheme `http`, `https`, `webdav` or `webdavs`.
    init?(_ address: String, transport: any HTTPTransport) {
        guard let url = URL(string: address), let host = url.host(), !host.isEmpty,
            let scheme = url.scheme?.lowercased()
        else { return nil }
        self.scheme = scheme.hasSuffix("s") ? "https" : "http"
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        (port, self.transport) = (url.port, transport)
        path = String(url.path().reversed().drop { $0 == "/" }.reversed())
    }

    var isEncrypted: Bool { scheme == "https" }

    /// An answer, and the time by this machine's clock half-way between the request and the answer.
    struct Answer: Sendable {
        let response: HTTPResponse
        let body: [UInt8]
        let time: Int64

        /// The server's clock, in milliseconds since 1970 UTC; `nil` if the answer does not state it. The field `Date`
        /// has a resolution of seconds.
        var serverTime: Int64? {
            WireFields.serverTime(of: response)
                ?? response.headerFields[.date].flatMap(RetryAfter.seconds).map { $0 * 1_000 }
        }

        /// `true` if the answer is that of an EntitlementSync server.
        var isOurs: Bool { WireFields.serverTime(of: response) != nil }
    }

    /// Asks for `target`, a path below ``path``.
    func get(_ target: String) async throws(TransportError) -> Answer {
        let request = HTTPRequest(
            method: .get, scheme: scheme, authority: ServerOptions.authority(host, port), path: path + target)
        let before = HostServices.system.now()
        let answer = try await transport.send(request, body: [], timeout: Self.limit, maximumByteCount: 1 << 20)
        let now = HostServices.system.now()
        return Answer(response: answer.response, body: answer.body, time: before + (now - before) / 2)
    }
}

extension RemoteHost {
    /// Asks for `target`; without it for the health, and if another program answers, for a resource that every reverse
    /// proxy passes on.
    func reach(_ target: String? = nil) async -> Result<Answer, TransportError> {
        do throws(TransportError) {
            let answer = try await get(target ?? "/healthz")
            return .success(target != nil || answer.isOurs ? answer : try await get("/v1/entitlements"))
        } catch {
            return .failure(error)
        }
    }

    /// The verdict on the certificates of the server after ``reach(_:)``; `nil` without TLS, and if it was not reached.
    func tls(_ reached: Result<Answer, TransportError>) async -> Verdict? {
        switch reached {
        case .success: isEncrypted ? await certificates(distrust: nil) : nil
        case .failure(let error): error.kind == .untrusted ? await certificates(distrust: error.message) : nil
        }
    }

    /// The verdict on the chain of certificates.
    ///
    /// - Parameter distrust: the reason why the chain is not trusted; `nil` if it is.
    private func certificates(distrust: String?) async -> Verdict {
        let name = ServerOptions.authority(host, port)
        let chain: CertificateChain
        do throws(ListenerError) {
            chain = try await CertificateChain.presented(by: host, port: port ?? 443, within: Self.limit)
        } catch {
            if let distrust { return .failed("\(name): \(distrust)", remedy: Self.trustRemedy) }
            return .warning(
                "\(name): the chain could not be read: \(error)", remedy: "openssl s_client -connect \(name)")
        }
        let now = HostServices.system.now()
        let validity = Validity(chain, now: now)
        // Clients ignore certificates of the chain that they do not need.
        if distrust == nil, validity.isOver, let own = chain.ends.first, own * 1_000 > now {
            return .warning(
                "\(name): trusted, but the server also sends an expired certificate",
                remedy: "remove it from the chain on the server")
        }
        if validity.isOver {
            return .failed("\(name): \(validity.description)", remedy: "renew the certificate on the server")
        }
        if let distrust { return .failed("\(name): \(distrust)", remedy: Self.trustRemedy) }
        return validity.verdict(of: name, remedy: "renew the certificate on the server")
    }

    private static let trustRemedy = "let the server send its whole chain, or pass --ca-file with its authority"
}

/// The time for which a chain of certificates remains valid.
struct Validity {
    /// The number of days before the end at which there is a warning. Certificates are usually renewed earlier.
    static let noticeDays: Int64 = 14

    private let count: Int
    /// The time until the first certificate expires, in milliseconds; negative afterwards.
    private let rest: Int64
    private let end: Timestamp

    /// - Parameter now: the current time in milliseconds since 1970 UTC.
    init(_ chain: CertificateChain, now: Int64) {
        count = chain.ends.count
        end = Timestamp(milliseconds: (chain.ends.min() ?? 0) * 1_000)
        rest = end.milliseconds - now
    }

    var isOver: Bool { rest <= 0 }

    private var days: Int64 { abs(rest) / 86_400_000 }

    var description: String {
        let chain = plural(count, "certificate")
        if isOver { return "\(chain), expired \(plural(Int(days), "day")) ago (\(end))" }
        return "\(chain), valid for \(plural(Int(days), "more day")) (\(end))"
    }

    func verdict(of name: String, remedy: String) -> Verdict {
        let finding = "\(name): \(description)"
        if isOver { return .failed(finding, remedy: remedy) }
        return days < Self.noticeDays ? .warning(finding, remedy: remedy) : .ok(finding)
    }
}
