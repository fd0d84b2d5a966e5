import Entitlements
import Foundation

/// The checks of `syncd doctor`. The raw values are stable identifiers for scripts.
enum CheckName: String, CaseIterable, Sendable {
    case configuration, catalog
    case secrets = "secret-files"
    case storeFiles = "store-files"
    case storeAccess = "store-access"
    case diskSpace = "disk-space"
    case storeLock = "store-lock"
    case store
    // Of a device.
    case socket, account, credentials, remote
    case remoteTLS = "remote-tls"
    case remoteClock = "remote-clock"
    case remoteVersion = "remote-version"
    case remoteIdentity = "remote-identity"
    // Of a server.
    case certificate, listen, clock, memory
    case publicURL = "public-url"
    case publicTLS = "public-tls"
}

/// The result of a check, in one line, with the remedy.
struct Verdict: Sendable {
    enum Result: String, CaseIterable, Sendable {
        case ok, warning, failed, skipped
    }

    let result: Result
    let finding: String
    let remedy: String?

    static func ok(_ finding: String) -> Verdict { Verdict(.ok, finding) }

    static func warning(_ finding: String, remedy: String) -> Verdict { Verdict(.warning, finding, remedy) }

    static func failed(_ finding: String, remedy: String) -> Verdict { Verdict(.failed, finding, remedy) }

    /// The check does not apply, or another finding makes it impossible.
    static func skipped(_ reason: String) -> Verdict { Verdict(.skipped, reason) }

    /// The verdict on an error. The messages of the libraries end in "; " and the remedy.
    static func failed(_ error: any Error, remedy: String) -> Verdict {
        let message = Failure(error).message
        guard let end = message.range(of: "; ", options: .backwards) else { return .failed(message, remedy: remedy) }
        return .failed(String(message[..<end.lowerBound]), remedy: String(message[end.upperBound...]))
    }

    /// The verdict of a check whose failure does not stop the installation from working.
    var asWarning: Verdict { result == .failed ? Verdict(.warning, finding, remedy) : self }

    private init(_ result: Result, _ finding: String, _ remedy: String? = nil) {
        (self.result, self.finding, self.remedy) = (result, finding.singleSpaced, remedy?.singleSpaced)
    }
}

extension String {
    /// The text without line breaks, and with a replacement character for each control character: names of processes
    /// and answers of servers must not control a terminal. Unlike ``singleLine`` it is not truncated, because a remedy
    /// is to be copied.
    fileprivate var singleSpaced: String {
        let line = split(whereSeparator: \.isNewline).joined(separator: " ")
        return String(
            String.UnicodeScalarView(
                line.unicodeScalars.map { scalar in
                    switch scalar.properties.generalCategory {
                    case .control, .format, .lineSeparator, .paragraphSeparator: "\u{FFFD}"
                    default: scalar
                    }
                }))
    }
}

/// The findings about the installation of one command, in the order of the checks.
struct Examination: Sendable {
    struct Finding: Sendable {
        let command: Setting.Command
        let check: CheckName
        let verdict: Verdict
    }

    let command: Setting.Command
    private(set) var findings: [Finding] = []

    init(_ command: Setting.Command) { self.command = command }

    /// Performs a check. One that throws has failed; the others still run.
    @discardableResult
    mutating func check(
        _ name: CheckName, remedy: String = "correct the cause", _ body: () async throws -> Verdict
    ) async -> Verdict.Result {
        let verdict: Verdict
        do { verdict = try await body() } catch { verdict = .failed(error, remedy: remedy) }
        findings.append(Finding(command: command, check: name, verdict: verdict))
        return verdict.result
    }

    mutating func skip(_ names: CheckName..., because reason: String) {
        findings += names.map { Finding(command: command, check: $0, verdict: .skipped(reason)) }
    }
}
