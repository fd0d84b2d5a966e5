import ArgumentParser
import Entitlements
import Foundation
import SyncCore
import SyncProtocol
import SyncServer
import SyncService

/// The examination of a server: the configuration of `syncd serve`, its store, and what it needs to listen.
struct ServerCheckup {
    private let review: ConfigurationReview<Serve>
    private let unit: ServiceUnit?
    private let caFile: String?
    private var serve: Serve { review.usable.options }

    /// - Parameters:
    ///   - unit: the unit of the server, if root checks it.
    ///   - caFile: the authorities that certify the public URL; `nil` for those of the environment.
    init(_ review: ConfigurationReview<Serve>, unit: ServiceUnit?, caFile: String?) {
        (self.review, self.unit, self.caFile) = (review, unit, caFile)
    }

    func examine() async -> Examination {
        var examination = Examination(.serve)
        await examination.check(.configuration) { review.verdict }
        await examination.check(.catalog) {
            try review.catalog(serve.service.catalog.file == nil ? nil : serve.service.catalog)
        }
        await examination.check(.secrets) { review.secrets }
        await examineStore(into: &examination)
        await examination.check(.certificate) { try certificate(serve.listening) }
        await examination.check(.listen) { try await listen() }
        await examination.check(.memory) { memory }
        await examinePublicURL(into: &examination)
        return examination
    }

    private func examineStore(into examination: inout Examination) async {
        guard let url = storeURL else {
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
                "this clock is \(shortText(seconds: lag / 1_000)) behind the latest time in the store",
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

    private var storeURL: StoreURL? { serve.store.flatMap { try? StoreURL($0, option: "--store") } }

    private func listen() async throws -> Verdict {
        if let verdict = review.mistakes(.listen) { return verdict }
        let configuration = try serve.listening.configuration()
        let address = ListeningAddress(
            host: configuration.host, port: configuration.port, isEncrypted: configuration.certificate != nil,
            store: storeURL.flatMap { $0.isDatabase ? $0.location?.path : nil })
        if let unit, !unit.mayBindAnyPort, let verdict = address.privilege(of: unit.user) { return verdict }
        return await address.verdict()
    }

    /// Compares the memory for one hash of a password with what is free.
    private var memory: Verdict {
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
    private func examinePublicURL(into examination: inout Examination) async {
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
        let reached = await host.reach()
        await examination.check(.publicURL) {
            switch reached {
            case .success(let answer) where answer.isOurs: .ok("\(name) answers")
            case .success:
                .warning("\(name): another program answers", remedy: "correct --name or the reverse proxy")
            case .failure(let error) where error.kind == .untrusted: .skipped("see public-tls")
            case .failure(let error):
                .warning(
                    "\(name) cannot be reached from here: \(error.message)",
                    remedy: "start the server, and try from another machine: curl \(name)/healthz")
            }
        }
        if let verdict = await host.tls(reached) { await examination.check(.publicTLS) { verdict.asWarning } }
    }
}
