import ArgumentParser
import Entitlements
import Foundation
import SyncCore
import SyncProtocol
import SyncServer
import SyncService

/// The examination of a server: the configuration of `syncd serve`, its store, and what it needs to listen.
struct ServerCheckup {
    private let review: ConfigurationReview
    private let unit: ServiceUnit?
    private let caFile: String?
    private let serve: Serve?

    /// - Parameters:
    ///   - unit: the unit of the server, if root checks it.
    ///   - caFile: the authorities that certify the public URL; `nil` for those of the environment.
    init(_ review: ConfigurationReview, unit: ServiceUnit?, caFile: String?) {
        (self.review, self.unit, self.caFile) = (review, unit, caFile)
        serve = try? Serve.parse(review.usable.arguments)
    }

    func examine() async -> Examination {
        var examination = Examination(.serve)
        await examination.check(.configuration) { review.verdict }
        await examination.check(.catalog) {
            try review.catalog(serve.flatMap { $0.service.catalog.file == nil ? nil : $0.service.catalog })
        }
        await examination.check(.secrets) { review.secrets }
        guard let serve else {
            examination.skip(.store, because: "the options cannot be read: see configuration")
            return examination
        }
        await examineStore(serve, into: &examination)
        await examination.check(.certificate) { try certificate(serve.listening) }
        await examination.check(.listen) { try await listen(serve) }
        await examination.check(.memory) { memory(serve) }
        await examinePublicURL(serve, into: &examination)
        return examination
    }

    private func examineStore(_ serve: Serve, into examination: inout Examination) async {
        guard let url = storeURL(serve) else {
            return examination.skip(.store, .clock, because: "no store is configured: see configuration")
        }
        let isWhole: Bool
        if case .postgreSQL = url.place {
            let result = await examination.check(.store) {
                _ = try await url.existing().list(prefix: "", after: nil, limit: 1)
                return .ok("the database answers")
            }
            isWhole = result == .ok
        } else if let store = StoreChecks(url, of: .serve, for: review.user) {
            isWhole = await store.examine(into: &examination)
        } else {
            return examination.skip(.store, .clock, because: "\(url.text) ends with the server")
        }
        guard isWhole else {
            return examination.skip(.clock, because: "the store cannot be read: see store")
        }
        await examination.check(.clock, remedy: "see store") {
            guard let latest = try await ClockRollbackGuard.latest(in: url.existing()) else {
                return .skipped("the store holds no time yet")
            }
            let lag = latest - HostServices.system.now()
            guard lag > ClockRollbackGuard.tolerance else { return .ok("not behind the latest time in the store") }
            return .failed(
                "this clock is \(ClockDifference.text(lag / 1_000)) behind the latest time in the store",
                remedy: "set it right; if it is right now, start once with --accept-clock")
        }
    }

    private func certificate(_ options: ListenOptions) throws -> Verdict {
        if let verdict = review.mistakes(.certificate) { return verdict }
        guard let path = options.tlsCertificate else { return .skipped("no certificate is configured") }
        let chain: CertificateChain
        do throws(ListenerError) { chain = try CertificateChain(file: path) } catch {
            return .failed("\(error)", remedy: "name a PEM file that this user can read")
        }
        return Validity(chain, now: HostServices.system.now()).verdict(
            of: path, remedy: "renew the certificate, then: systemctl reload syncd")
    }

    private func storeURL(_ serve: Serve) -> StoreURL? {
        serve.store.flatMap { try? StoreURL($0, option: "--store") }
    }

    private func listen(_ serve: Serve) async throws -> Verdict {
        if let verdict = review.mistakes(.listen) { return verdict }
        let configuration = try serve.listening.configuration()
        let place = ListeningPlace(
            host: configuration.host, port: configuration.port, isEncrypted: configuration.certificate != nil,
            store: storeURL(serve).flatMap { $0.isDatabase ? $0.location?.path : nil })
        if let unit, !unit.mayBindAnyPort, let verdict = place.privilege(of: unit.user) { return verdict }
        return await place.verdict()
    }

    /// Compares the memory for one hash of a password with what is free.
    private func memory(_ serve: Serve) -> Verdict {
        let cost = serve.passwordCost.flatMap { Int($0) } ?? 17
        // N blocks of 128 * r bytes, with r = 8.
        let needed = 1 << max(cost - 10, 0)
        guard let free = Self.freeMebibytes else { return .skipped("this system does not tell its free memory") }
        let finding = "a hash of a password takes \(needed) MiB, and \(free) MiB are free"
        guard free < needed * 2 else { return .ok(finding) }
        return .warning(finding, remedy: "free memory, or lower --password-cost (now \(cost)) for new passwords")
    }

    private static var freeMebibytes: Int? {
        let text = try? String(contentsOfFile: "/proc/meminfo", encoding: .utf8)
        let line = text?.split(separator: "\n").first { $0.hasPrefix("MemAvailable:") }
        return line?.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 / 1_024 }
    }

    /// Checks the URL that devices use, if it is configured. It may not be reachable from here, so this only warns.
    private func examinePublicURL(_ serve: Serve, into examination: inout Examination) async {
        guard let name = serve.service.name else {
            return examination.skip(.publicURL, because: "no --name is configured")
        }
        let host: RemoteHost
        do {
            let transport = try ServerOptions.parse(caFile.map { ["--ca-file", $0] } ?? []).transport()
            guard let found = RemoteHost(name, transport: transport) else {
                return examination.skip(.publicURL, because: "--name is no URL: see configuration")
            }
            host = found
        } catch {
            await examination.check(.publicURL, remedy: "correct --ca-file") { throw error }
            return
        }
        do throws(TransportError) {
            let answer = try await host.getOurs()
            await examination.check(.publicURL) {
                answer.isOurs
                    ? .ok("\(name) answers")
                    : .warning("\(name): another program answers", remedy: "correct --name or the reverse proxy")
            }
            if host.isEncrypted {
                await examination.check(.publicTLS) { await host.certificates(distrust: nil).asWarning }
            }
        } catch {
            let isUntrusted = error.kind == .untrusted
            await examination.check(.publicURL) {
                isUntrusted
                    ? .skipped("see public-tls")
                    : .warning(
                        "\(name) cannot be reached from here: \(error.message)",
                        remedy: "start the server, and try from another machine: curl \(name)/healthz")
            }
            if isUntrusted {
                await examination.check(.publicTLS) { await host.certificates(distrust: error.message).asWarning }
            }
        }
    }
}
