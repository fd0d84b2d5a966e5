extension Snapshot {
    /// The JSON object that `evaluate --json` prints and `/v1/entitlements` returns.
    package func json(account: String?) -> JSON { .object(members(account: account)) }

    /// The members of the JSON object.
    package func members(account: String?) -> [(String, JSON)] {
        let head: [(String, JSON)] = account.map { [("account", .string($0))] } ?? []
        return head + [
            ("at", .string("\(at)")),
            ("subscriptions", .array(subscriptions.map(\.json))),
            ("owned", .array(owned.map { .string($0.rawValue) })),
            ("balances", .object(balances.map { ($0.product.rawValue, .number($0.units)) })),
            ("access", .object(access.map { ($0.entitlement.rawValue, $0.access.json) })),
            ("pending", .array(pending.map { .string($0.rawValue) })),
        ]
    }
}

extension Snapshot.Subscription {
    fileprivate var json: JSON {
        .object(
            [
                ("group", .string(group.rawValue)), ("active", .bool(isActive)),
                ("level", level.map(JSON.number) ?? .null), ("expires", JSON(expires?.description)),
                ("daysRemaining", isActiveForGood ? .null : .number(Int64(daysRemaining))),
                ("periods", .array(periods.map(\.json))),
            ] + (renewal.map { [("renewal", $0.json)] } ?? []))
    }
}

extension Snapshot.Renewal {
    fileprivate var json: JSON {
        .object([
            ("willRenew", .bool(willRenew)), ("graceEnd", JSON(graceEnd?.description)),
            ("billingRetry", .bool(isInBillingRetry)), ("pendingProductID", JSON(pendingProduct?.rawValue)),
        ])
    }
}

extension Period {
    /// The JSON object of the period.
    package var json: JSON {
        .object(
            [
                ("start", .string("\(start)")), ("end", JSON(end.asEnd?.description)),
            ] + transactionMembers + sourceMembers)
    }

    /// The members that name the purchase: its id alone may occur in several stores and environments. They are `null`
    /// if no purchase gave the period.
    package var transactionMembers: [(String, JSON)] {
        [
            ("transactionID", JSON(transaction?.id.rawValue)), ("store", JSON(transaction?.store.rawValue)),
            ("environment", JSON(transaction?.environment.rawValue)),
        ]
    }

    /// The members that name the origin of the period if it is not simply a purchase.
    package var sourceMembers: [(String, JSON)] {
        switch origin {
        case .purchase: []
        case .grace: [("grace", .bool(true))]
        case .assertion(let reference): [("source", .string(reference.source.rawValue))]
        }
    }
}

extension Access {
    /// The JSON object of the decision and its reason.
    package var json: JSON {
        switch self {
        case .granted(let grant):
            .object(
                [
                    ("granted", .bool(true)), ("until", JSON(grant.until?.description)),
                    ("because", .string("\(grant.source)")),
                ] + (grant.units.map { [("units", .number($0))] } ?? []))
        case .denied(let denial):
            .object(
                [
                    ("granted", .bool(false)), ("reason", .string(denial.name)),
                    ("date", JSON(denial.date?.description)),
                ] + (denial.detail.map { [("detail", .string($0))] } ?? []))
        }
    }
}
