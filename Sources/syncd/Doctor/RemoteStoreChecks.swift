import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import SyncProtocol

/// The checks of a device's remote that is not an EntitlementSync server: a store on this machine, on a share, or on a
/// WebDAV server.
struct RemoteStoreChecks {
    let url: StoreURL
    let options: ServerOptions

    /// Performs the checks.
    ///
    /// - Parameters:
    ///   - local: the device's store; `nil` if it cannot be read.
    ///   - account: the account that the device syncs; `nil` if there is none.
    func examine(into examination: inout Examination, local: (any KeyValueBackend)?, account: Account?) async {
        let remote = url.existing()
        let isWebDAV = StoreURL.isWebDAV(url.text)
        if isWebDAV { await examineHost(into: &examination) }
        let reached = await examination.check(
            .remote,
            remedy: isWebDAV
                ? "check the network, the address, the user and the password"
                : "mount or create it, and let this user read and write it"
        ) {
            _ = try await bounded { try await remote.list(prefix: "", after: nil, limit: 1) }
            if let path = url.path, let reason = obstacle(to: path, R_OK | W_OK) {
                return .failed("\(path): \(reason)", remedy: "let user \(userName(geteuid())) write it")
            }
            return .ok("\(url.text) answers")
        }
        guard reached == .ok, let local, let account, !account.isAnonymous else {
            let reason = reached == .ok ? "no account is synced" : "\(url.text) cannot be read"
            return examination.skip(.remoteIdentity, because: reason)
        }
        await examination.check(.remoteIdentity, remedy: "syncd store check \(quoted(url.text))") {
            try await identity(of: remote, local: local, account: account)
        }
    }

    private func identity(
        of remote: any KeyValueBackend, local: any KeyValueBackend, account: Account
    ) async throws -> Verdict {
        let isKnown = try await bounded {
            if try await AccountDirectory(backend: remote).isKnown(account) { return true }
            // A folder that a tool shares has one entry for each replica and no directory.
            let prefix = try LedgerKeys(account).prefix
            return try await !remote.list(prefix: prefix, after: nil, limit: 1).outcome.items.isEmpty
        }
        if isKnown { return .ok("\(url.text) holds account \"\(account)\"") }
        let label = String(remote.label.map { $0.isNewline ? " " : $0 })
        guard try await EntitlementStore.hasSynced(account, withRemote: label, in: local) else {
            return .ok("\(url.text) has not been synced with account \"\(account)\" yet")
        }
        return .failed(
            "\(url.text) does not hold account \"\(account)\", with which this device has synced there: it is another "
                + "store, or it lost its data",
            remedy: "mount the former store or restore its backup; if the change is intended: syncd sync")
    }

    private func examineHost(into examination: inout Examination) async {
        guard let transport = try? options.transport(), let host = RemoteHost(url.text, transport: transport) else {
            return
        }
        let reached = await host.reach("/")
        if let verdict = await host.tls(reached) { await examination.check(.remoteTLS) { verdict } }
        guard case .success(let answer) = reached else { return }
        await examination.check(.remoteClock) { answer.clockVerdict(of: url.text) }
    }
}

/// Performs `body` within the time limit of a request, if it gives up when it is cancelled. An operation on a file
/// system that does not answer cannot be cancelled, and takes as long as it takes.
private func bounded<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
    try await withThrowingTaskGroup(of: Result.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await HostServices.system.sleep(for: RemoteHost.limit)
            throw Failure(.tryAgain, "no answer within \(RemoteHost.limit.components.seconds) s")
        }
        defer { group.cancelAll() }
        guard let result = try await group.next() else { throw CancellationError() }
        return result
    }
}
