import ArgumentParser
import Entitlements
import Foundation
import SyncServer
import SyncService

/// The server's limits and trusted proxies.
struct LimitOptions: ParsableArguments {
    @Option(name: .customLong("limit"), help: .setting("limit")) var settings: [String] = []

    @Flag(name: .customLong("limits"), help: "Print all limits with their values and exit.")
    var isShowing = false

    @Option(name: .customLong("trusted-proxy"), help: .setting("trusted-proxy")) var proxies: [String] = []

    /// The limits of `listener` with the options' values.
    func limits(_ listener: ListenerConfiguration) throws(Failure) -> ServerLimits {
        var limits = ServerLimits(listener: listener)
        try reading("limit", each: settings) { try limits.set($0) }
        try reading("trusted-proxy", each: proxies) { proxy in
            guard limits.listener.trustedProxies.insert(proxy) else {
                throw Failure(
                    .usage,
                    "--trusted-proxy must be an address or a range such as 10.0.0.0/8, not \"\(proxy.singleLine)\"")
            }
        }
        return limits
    }

    /// The table that `--limits` prints.
    static func table(_ limits: ServerLimits) -> String {
        aligned(limits.rows.map { [$0.name, $0.value, "\($0.meaning); \($0.unit)"] })
            .map { $0.dropFirst(2) + "\n" }.joined()
    }
}
