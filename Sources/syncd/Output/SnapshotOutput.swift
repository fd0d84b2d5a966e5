import EntitlementSync
import Entitlements

extension Snapshot {
    /// The object that `status --json` and `evaluate --json` print.
    func json(account: String?, clock: ClockStatus? = nil) -> JSON {
        let head: [(String, JSON)] = account.map { [("account", .string($0))] } ?? []
        return .object(
            head + [
                ("at", .string("\(at)")),
                ("subscriptions", .array(subscriptions.map(\.json))),
                ("owned", .array(owned.map { .string($0.rawValue) })),
                ("balances", .object(balances.map { ($0.product.rawValue, .number($0.units)) })),
                ("access", .object(access.map { ($0.entitlement.rawValue, $0.access.json) })),
                ("pending", .array(pending.map { .string($0.rawValue) })),
            ] + (clock?.members ?? []))
    }

    /// The same for a person.
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
    /// Said only when something is wrong.
    fileprivate var members: [(String, JSON)] {
        guard isDeviceClockWrong, let offset else { return [] }
        return [
            (
                "clock",
                .object([
                    ("offsetSeconds", .number(offset.components.seconds)), ("remote", JSON(remote)),
                    ("lastContact", JSON(lastContact?.description)),
                ])
            )
        ]
    }

    /// A line for a person when the device's clock is known to be wrong.
    var warnings: [String] {
        guard isDeviceClockWrong, let offset, let remote else { return [] }
        let seconds = offset.components.seconds
        let distance = abs(seconds) < 7_200 ? "\(abs(seconds) / 60) min" : "\(abs(seconds) / 3_600) h"
        return [
            "", "this device's clock is \(distance) \(seconds > 0 ? "behind" : "ahead"); the time is that of \(remote)",
        ]
    }
}

extension Snapshot.Subscription {
    fileprivate var json: JSON {
        .object(
            [
                ("group", .string(group.rawValue)), ("active", .bool(isActive)),
                ("level", level.map(JSON.number) ?? .null), ("expires", JSON(expires?.description)),
                ("daysRemaining", .number(Int64(daysRemaining))), ("periods", .array(periods.map(\.json))),
            ] + (renewal.map { [("renewal", $0.json)] } ?? []))
    }

    /// `active until 2026-07-01T00:00:00.000Z, 40 days left`.
    var summary: String {
        guard let expires else { return "never active" }
        guard isActive else { return "expired at \(expires)" }
        return "active until \(expires), \(daysRemaining) \(daysRemaining == 1 ? "day" : "days") left"
            + (level.map { ", level \($0)" } ?? "") + (renewal?.words ?? "")
    }
}

extension Snapshot.Renewal {
    fileprivate var json: JSON {
        .object([
            ("willRenew", .bool(willRenew)), ("graceEnd", JSON(graceEnd?.description)),
            ("billingRetry", .bool(isInBillingRetry)), ("pendingProductID", JSON(pendingProduct?.rawValue)),
        ])
    }

    fileprivate var words: String {
        if isInBillingRetry { return ", payment failed" }
        guard willRenew else { return ", does not renew" }
        return pendingProduct.map { ", renews as \($0)" } ?? ", renews"
    }
}

extension Period {
    var json: JSON {
        .object(
            [
                ("start", .string("\(start)")), ("end", .string("\(end)")),
                ("transactionID", JSON(transaction?.id.rawValue)),
            ] + sourceMembers)
    }

    /// What gives the period when no purchase does, or more than a purchase.
    var sourceMembers: [(String, JSON)] {
        switch origin {
        case .purchase: []
        case .grace: [("grace", .bool(true))]
        case .assertion(let reference): [("source", .string(reference.source.rawValue))]
        }
    }

    /// The period's name in a drawing.
    var label: String {
        switch origin {
        case .purchase(let transaction, _): transaction.id.rawValue
        case .grace(let transaction, _): "grace, \(transaction.id.rawValue)"
        case .assertion(let reference): reference.source.rawValue
        }
    }
}

extension Access {
    var json: JSON {
        switch self {
        case .granted(let grant):
            .object(
                [
                    ("granted", .bool(true)), ("until", JSON(grant.until?.description)),
                    ("because", .string("\(grant.because)")),
                ] + (grant.units.map { [("units", .number($0))] } ?? []))
        case .denied(let denial):
            .object([
                ("granted", .bool(false)), ("reason", .string(denial.name)),
                ("date", JSON(denial.date?.description)),
            ])
        }
    }

    var summary: String {
        switch self {
        case .granted(let grant):
            if let units = grant.units {
                "granted by \(grant.because), \(units) \(units == 1 ? "unit" : "units") left"
            } else if let until = grant.until {
                "granted until \(until) by \(grant.because)"
            } else {
                "granted for good by \(grant.because)"
            }
        case .denied(let denial): "denied: \(denial)"
        }
    }
}
