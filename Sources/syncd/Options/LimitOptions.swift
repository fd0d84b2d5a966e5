import ArgumentParser
import Entitlements
import Foundation
import SyncServer
import SyncService

/// What the server puts up with.
struct LimitOptions: ParsableArguments {
    @Option(
        name: .customLong("limit"),
        help: ArgumentHelp(
            "Another limit than the usual one, once for each; --limits shows all of them (SYNCD_LIMITS, with spaces "
                + "between).", valueName: "name=value"))
    var settings: [String] = []

    @Flag(name: .customLong("limits"), help: "Show all limits with their values, and do nothing else.")
    var isShowing = false

    @Option(
        name: .customLong("trusted-proxy"),
        help: ArgumentHelp(
            "Believe the X-Forwarded-For or Forwarded of this proxy, an address or a range such as 10.0.0.0/8; once "
                + "for each (SYNCD_TRUSTED_PROXIES, with spaces between).", valueName: "address"))
    var proxies: [String] = []

    /// The limits of a listener as they were asked for.
    func limits(_ listener: ListenerConfiguration) throws(Failure) -> ServerLimits {
        var limits = ServerLimits(listener: listener)
        for setting in Self.given(settings, "SYNCD_LIMITS") {
            do throws(ListenerError) { try limits.set(setting) } catch { throw Failure(.usage, "--limit: \(error)") }
        }
        for proxy in Self.given(proxies, "SYNCD_TRUSTED_PROXIES") {
            guard limits.listener.trustedProxies.insert(proxy) else {
                throw Failure(
                    .usage, "--trusted-proxy: \"\(proxy.singleLine)\" is no address, nor a range such as 10.0.0.0/8")
            }
        }
        return limits
    }

    private static func given(_ options: [String], _ variable: String) -> [String] {
        guard options.isEmpty else { return options }
        return environmentVariable(variable)?.split(separator: " ").map(String.init) ?? []
    }

    /// The table of `--limits`.
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
