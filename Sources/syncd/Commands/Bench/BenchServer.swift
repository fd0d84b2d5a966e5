import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import HTTPStorage
import LoadTesting
import NIOSSL
import SyncProtocol

/// The server under load, as it is reached.
struct BenchServer: Sendable {
    let origin: String
    let target: LoadTarget
    let transport: any HTTPTransport

    init(_ text: String, allowRemote: Bool, caFile: String?) throws {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme),
            let host = url.host()?.lowercased(), !host.isEmpty, url.user() == nil, url.query() == nil,
            url.fragment() == nil, ["", "/"].contains(url.path())
        else {
            throw Failure(.usage, "\"\(text.singleLine)\" is no server: write http://HOST:PORT or https://HOST")
        }
        let plain = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        guard allowRemote || ListenOptions.isLoopback(plain) else {
            throw Failure(
                .usage,
                "\(host.singleLine) is not this machine, and load is an attack on whoever did not ask for it: say "
                    + "--allow-remote if the server is yours")
        }
        var configuration = CurlClient.Configuration()
        configuration.userAgent = "syncd/\(SyncD.configuration.version)"
        if let caFile { configuration.trust = .file(caFile) }
        let port = url.port ?? (scheme == "https" ? 443 : 80)
        origin = "\(scheme)://\(plain.contains(":") ? "[\(plain)]" : plain):\(port)"
        transport = try CurlClient(configuration)
        guard scheme == "https" else {
            target = LoadTarget(host: plain, port: port)
            return
        }
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.applicationProtocols = ["http/1.1"]
        if let caFile { tls.trustRoots = .file(caFile) }
        let context: NIOSSLContext
        do { context = try NIOSSLContext(configuration: tls) } catch {
            throw Failure(.failed, "--ca-file: \(caFile ?? "the system's"): the certificates cannot be used: \(error)")
        }
        // A name that is numbers is no name for TLS (RFC 6066, section 3).
        let name = plain.allSatisfy { $0.isHexDigit || ".:".contains($0) } ? nil : plain
        target = LoadTarget(host: plain, port: port) { try NIOSSLClientHandler(context: context, serverHostname: name) }
    }

    /// Puts the load on it.
    func run(_ plan: LoadPlan) async throws -> LoadReport {
        do {
            return try await LoadRun.run(plan, at: target)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw Failure(.failed, "\(origin): \(plan.works.count) connections: \("\(error)".singleLine)")
        }
    }
}

/// A request of `--requests`.
struct BenchRequest: Decodable {
    var method: String
    var path: String
    var fields: [String: String]?
    var body: String?

    /// The requests of a file, a line each.
    static func read(_ bytes: [UInt8], at target: LoadTarget) throws -> [RequestBytes] {
        let lines = bytes.split(separator: UInt8(ascii: "\n"))
        guard !lines.isEmpty else { throw Failure(.failed, "--requests: the file has no requests") }
        return try lines.enumerated().map { index, line in
            guard let request = try? JSONDecoder().decode(Self.self, from: Data(line)), request.isSound else {
                throw Failure(
                    .failed,
                    "--requests: line \(index + 1) is no request: "
                        + #"{"method":"GET","path":"/…","fields":{"Name":"value"},"body":"…"}"#)
            }
            let fields = (request.fields ?? [:]).sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
            return RequestBytes(
                request.method, request.path, at: target, fields: fields, body: Array((request.body ?? "").utf8))
        }
    }

    /// Nothing in it ends the line that it stands in.
    private var isSound: Bool {
        let values = (fields ?? [:]).flatMap { [$0.key, $0.value] }
        return !method.isEmpty && method.allSatisfy { $0.isASCII && $0.isUppercase } && path.hasPrefix("/")
            && !path.contains(" ") && ([path] + values).allSatisfy { !$0.utf8.contains { $0 < 0x20 } }
    }
}
