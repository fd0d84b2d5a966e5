import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol

/// The checks of a server that is a device's remote. They send a few requests that change nothing.
struct RemoteServerChecks {
    let server: RemoteServer
    private let host: RemoteHost

    init?(_ server: RemoteServer) {
        guard let host = RemoteHost(server.origin, transport: server.transport) else { return nil }
        (self.server, self.host) = (server, host)
    }

    /// Performs the checks.
    ///
    /// - Parameter kept: the device's session; `nil` if there is none.
    func examine(into examination: inout Examination, session kept: KeptSession?) async {
        let reached = await host.reach()
        await examination.check(.remote) { verdict(reached) }
        let tls = await host.tls(reached)
        guard case .success(let answer) = reached else {
            let reason = "\(server.origin) is not reachable"
            await examination.check(.remoteTLS) { tls ?? .skipped(reason) }
            return examination.skip(.remoteClock, .remoteVersion, .remoteIdentity, because: reason)
        }
        await examination.check(.remoteTLS) { tls ?? .skipped("\(server.origin) has no TLS") }
        guard answer.isOurs else {
            return examination.skip(
                .remoteClock, .remoteVersion, .remoteIdentity, because: "another server answers: see remote")
        }
        await examination.check(.remoteClock) { answer.clockVerdict(of: server.origin) }
        await examination.check(.remoteVersion) { await version() }
        await examination.check(.remoteIdentity, remedy: "see the log of \(server.origin)") { try await identity(kept) }
    }

    private func verdict(_ reached: Result<RemoteHost.Answer, TransportError>) -> Verdict {
        let answer: RemoteHost.Answer
        switch reached {
        case .success(let found): answer = found
        case .failure(let error) where error.kind == .untrusted: return .skipped("see remote-tls")
        case .failure(let error):
            return .failed(
                "\(server.origin): \(error.message)",
                remedy: "check the network, the address, and that the server runs: curl \(server.origin)/healthz")
        }
        let status = "\(server.origin) answers with status \(answer.response.status.code)"
        guard answer.isOurs else {
            return .failed(
                "\(status), and is no EntitlementSync server",
                remedy: "correct --remote, or let the reverse proxy pass on /v1")
        }
        guard answer.response.status.code < 500 else { return .failed(status, remedy: "see the server's log") }
        return .ok("\(server.origin) answers")
    }

    private func version() async -> Verdict {
        let answer: RemoteHost.Answer
        do throws(TransportError) { answer = try await host.get("/openapi.yaml") } catch {
            return .skipped("\(server.origin) does not tell its version: \(error.message)")
        }
        guard answer.response.status == .ok, let number = ReleaseNumber(description: answer.body) else {
            return .skipped("\(server.origin) does not tell its version")
        }
        return number.verdict(of: server.origin)
    }

    private func identity(_ kept: KeptSession?) async throws -> Verdict {
        guard let kept else { return .skipped("no session at \(server.origin) can be used: see credentials") }
        let age = HostServices.system.now() - kept.received
        guard (0..<kept.session.lifetime.components.seconds * 1_000).contains(age) else {
            return .skipped("the access token has expired; a sync renews it, and the doctor does not")
        }
        let remote = try HTTPBackend(
            server: server.origin, transport: server.transport, timeout: RemoteHost.limit
        ) { (refused) throws(BackendError) in
            guard refused == nil else { throw BackendError(.permissionDenied, message: Self.refusal) }
            return kept.session.accessToken
        }
        let account = try kept.session.life()
        let remedy =
            "correct --remote; if the change is intended, log in again: syncd account login \(quoted("\(account)"))"
        do throws(BackendError) {
            if try await AccountDirectory(backend: remote).isKnown(account) {
                return .ok("\(server.origin) knows account \"\(account)\"")
            }
            return .failed(
                "\(server.origin) does not know account \"\(account)\" as this device does: another server answers, "
                    + "or it lost its data", remedy: remedy)
        } catch {
            guard error.kind == .permissionDenied else { throw error }
            return .failed(
                "\(server.origin) refuses the session of \"\(account)\": another server answers, or the session was "
                    + "ended", remedy: remedy)
        }
    }

    private static let refusal = "the access token was refused"
}

extension RemoteHost.Answer {
    /// The largest difference of two clocks that has no effect, in milliseconds.
    private static let negligible: Int64 = 30_000
    /// The largest difference that programs tolerate, in milliseconds.
    private static let tolerated: Int64 = 300_000

    /// The verdict on the difference between this machine's clock and the server's.
    func clockVerdict(of server: String) -> Verdict {
        guard let difference = serverTime.map({ $0 - time }) else {
            return .skipped("\(server) does not state its time")
        }
        let size = abs(difference)
        guard size > Self.negligible else { return .ok("within \(size / 1_000 + 1) s of \(server)") }
        let direction = difference > 0 ? "behind" : "ahead of"
        let finding = "this clock is \(shortText(seconds: size / 1_000)) \(direction) that of \(server)"
        let remedy = "set the wrong one of the two clocks: timedatectl set-ntp true"
        return size > Self.tolerated ? .failed(finding, remedy: remedy) : .warning(finding, remedy: remedy)
    }
}

/// A duration in its largest fitting unit.
func shortText(seconds: Int64) -> String {
    switch seconds {
    case ..<120: "\(seconds) s"
    case ..<7_200: "\(seconds / 60) min"
    case ..<172_800: "\(seconds / 3_600) h"
    default: "\(seconds / 86_400) days"
    }
}

/// The release of a server: MAJOR.MINOR.PATCH.
struct ReleaseNumber {
    private let parts: [Int]
    let text: String

    init?(_ text: some StringProtocol) {
        let core = text.prefix { $0 != "-" && $0 != "+" }
        let parts = core.split(separator: ".", omittingEmptySubsequences: false).map { Int($0) }
        (self.parts, self.text) = (parts.compactMap(\.self), String(text))
        guard parts.count == 3, self.parts.count == 3 else { return nil }
    }

    /// The version in an OpenAPI document.
    init?(description yaml: [UInt8]) {
        let lines = String(decoding: yaml.prefix(4_096), as: UTF8.self).split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix("  version: ") }) else { return nil }
        self.init(line.dropFirst("  version: ".count).filter { $0 != "\"" && $0 != "'" })
    }

    func verdict(of server: String) -> Verdict {
        guard let own = ReleaseNumber(Version.number) else { return .skipped("this version has no number") }
        if own.parts == parts { return .ok("\(server) has version \(text), as this device") }
        let finding = "\(server) has version \(text), this device \(own.text)"
        let isNewer = own.parts.lexicographicallyPrecedes(parts)
        let remedy = isNewer ? "update syncd on this device" : "update the server"
        if parts[..<2] == own.parts[..<2] { return .ok(finding) }
        // Until 1.0.0 a minor version may break the protocol.
        let isCompatible = parts[0] == own.parts[0] && parts[0] > 0
        return isCompatible ? .warning(finding, remedy: remedy) : .failed(finding, remedy: remedy)
    }
}
