import ArgumentParser
import Entitlements
import Foundation
import SyncServer
import SyncService

/// The server's limits and trusted proxies.
struct LimitOptions: ParsableArguments {
    @Option(name: .customLong("limit"), help: .setting("limit"))
    var settings: [String] = []

    @Flag(name: .customLong("limits"), help: "Print all limits with their values and exit.")
    var isShowing = false

    @Option(name: .customLong("trusted-proxy"), help: .setting("trusted-proxy"))
    var proxies: [String] = []

    /// The limits of `listener` with the options' values.
    func limits(_ listener: ListenerConfiguration) throws(Failure) -> ServerLimits {
        var limits = ServerLimits(listener: listener)
        for setting in settings {
            do throws(ListenerError) { try limits.set(setting) } catch { throw Failure(.usage, "--limit: \(error)") }
        }
        for proxy in proxies {
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
        let rows = limits.rows
        let widths = (rows.map(\.name.count).max() ?? 0, rows.map(\.value.count).max() ?? 0)
        func padded(_ text: String, _ width: Int) -> String {
            text + String(repeating: " ", count: max(0, width - text.count))
        }
        return rows.map { row in
            "\(padded(row.name, widths.0))  \(padded(row.value, widths.1))  \(row.meaning); \(row.unit)\n"
        }.joined()
    }
}
