import EntitlementSync
import Entitlements

extension Snapshot {
    /// The object that `status --json` prints.
    func json(account: String?, clock: ClockStatus?) -> JSON {
        .object(members(account: account) + (clock?.members ?? []))
    }

    /// The text that `status` prints.
    func text(account: String?) -> String {
        var lines = [account.map { "\($0), at \(at)" } ?? "at \(at)"]
        if !subscriptions.isEmpty {
            lines += ["", "subscriptions"] + aligned(subscriptions.map { [$0.group.rawValue, $0.summary] })
        }
        let holdings =
            owned.map { [$0.rawValue, "owned"] }
            + balances.map { [$0.product.rawValue, "\($0.units) left"] } + pending.map { [$0.rawValue, "pending"] }
        if !holdings.isEmpty { lines += ["", "products"] + aligned(holdings) }
        if !access.isEmpty {
            lines += ["", "access"] + aligned(access.map { [$0.entitlement.rawValue, $0.access.summary] })
        }
        return lines.joined(separator: "\n")
    }
}

extension ClockStatus {
    /// The JSON members; empty unless the device's clock is wrong.
    fileprivate var members: [(String, JSON)] {
        guard isDeviceClockWrong, let offset else { return [] }
        return [
            (
                "clock",
                [
                    "offsetSeconds": .number(offset.components.seconds), "remote": JSON(remote),
                    "lastContact": JSON(lastContact?.description),
                ]
            )
        ]
    }

    /// The warning lines; empty unless the device's clock is known to be wrong.
    var warnings: [String] {
        guard isDeviceClockWrong, let offset, let remote else { return [] }
        let seconds = offset.components.seconds
        let distance = abs(seconds) < 7_200 ? "\(abs(seconds) / 60) min" : "\(abs(seconds) / 3_600) h"
        return [
            "", "this device's clock is \(distance) \(seconds > 0 ? "behind" : "ahead"); using the time of \(remote)",
        ]
    }
}

extension Snapshot.Subscription {
    /// `active until 2026-07-01T00:00:00.000Z, 40 days left`.
    var summary: String {
        if isActiveForGood { return "active for good" }
        guard let expires else { return "never active" }
        guard isActive else { return "expired at \(expires)" }
        return "active until \(expires), \(plural(daysRemaining, "day")) left"
            + (level.map { ", level \($0)" } ?? "") + (renewal?.words ?? "")
    }
}

extension Snapshot.Renewal {
    fileprivate var words: String {
        if isInBillingRetry { return ", payment failed" }
        guard willRenew else { return ", does not renew" }
        return pendingProduct.map { ", renews as \($0)" } ?? ", renews"
    }
}

extension Period {
    /// The period's label in a drawing.
    var label: String {
        switch origin {
        case .purchase(let transaction, _): transaction.id.rawValue
        case .grace(let transaction, _): "grace, \(transaction.id.rawValue)"
        case .assertion(let reference): reference.source.rawValue
        }
    }
}

extension Access {
    var summary: String {
        switch self {
        case .granted(let grant):
            if let units = grant.units {
                "granted by \(grant.source), \(units) \(units == 1 ? "unit" : "units") left"
            } else if let until = grant.until {
                "granted until \(until) by \(grant.source)"
            } else {
                "granted for good by \(grant.source)"
            }
        case .denied(let denial): "denied: \(denial)"
        }
    }
}
