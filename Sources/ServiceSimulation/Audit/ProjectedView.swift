import SyncService

/// The part of an account's rows that events describe. It is read by SQL, without code of the projector.
struct ProjectedView: Equatable {
    struct Purchase: Equatable {
        var line: String
        var isSetAside: Bool
        /// True if it gives paid time.
        var hasGroup: Bool
        var isRevoked: Bool
        var receiver: String?
    }

    struct Subscription: Equatable {
        var isActive: Bool
        var announced: Int64?
    }

    var incarnation: String
    var purchases: [String: Purchase] = [:]
    var subscriptions: [String: Subscription] = [:]
    /// The granted entitlements.
    var granted: Set<String> = []

    /// The queries whose rows ``views(_:)`` reads.
    static let queries = [
        "SELECT account, incarnation FROM customers",
        """
        SELECT account, store || '/' || environment || '/' || transaction_id,
            store || '/' || environment || '/' || original_id, product_group, set_aside, revoked, transferred_to
        FROM purchases
        """,
        "SELECT account, environment || ' ' || product_group, active, announced FROM subscriptions",
        "SELECT account, environment || ' ' || entitlement FROM entitlements WHERE granted = 1",
    ].map { SQLStatement($0) }

    /// The views of all accounts, by their names.
    static func views(_ rows: [[[SQLValue]]]) -> [String: ProjectedView] {
        var views: [String: ProjectedView] = [:]
        for row in rows[0] { views[row[0].words] = ProjectedView(incarnation: row[1].words) }
        for row in rows[1] {
            views[row[0].words]?.purchases[row[1].words] = Purchase(
                line: row[2].words, isSetAside: row[4] != .null, hasGroup: row[3] != .null, isRevoked: row[5] != .null,
                receiver: row[6] == .null ? nil : row[6].words)
        }
        for row in rows[2] {
            views[row[0].words]?.subscriptions[row[1].words] = Subscription(
                isActive: row[2].count == 1, announced: row[3].count)
        }
        for row in rows[3] { views[row[0].words]?.granted.insert(row[1].words) }
        return views
    }

    /// The events that lead from one state of an account to the next, each as `kind subject`, in any order.
    static func events(from before: ProjectedView?, to after: ProjectedView?) -> [String] {
        guard let before else { return after.map { ["account.created"] + events(of: $0, since: nil) } ?? [] }
        guard let after else { return ["account.erased"] }
        guard before.incarnation == after.incarnation else {
            return ["account.erased", "account.created"] + events(of: after, since: nil)
        }
        return events(of: after, since: before)
    }

    private static func events(of after: ProjectedView, since before: ProjectedView?) -> [String] {
        var events: [String] = []
        let known = before?.purchases ?? [:]
        var lines = Set(known.values.filter { !$0.isSetAside }.map(\.line))
        for (id, purchase) in after.purchases {
            let former = known[id]
            if former == nil { events.append("purchase.recorded \(id)") }
            if !purchase.isSetAside, purchase.hasGroup, former?.isSetAside != false {
                let isFirst = lines.insert(purchase.line).inserted
                events.append("subscription.\(isFirst ? "started" : "renewed") \(purchase.line)")
            }
            if purchase.isRevoked, former?.isRevoked != true { events.append("purchase.refunded \(id)") }
            if !purchase.isRevoked, former?.isRevoked == true { events.append("purchase.reinstated \(id)") }
            if let former, let receiver = purchase.receiver, former.receiver != receiver {
                events.append("purchase.transferred \(id)")
            }
        }
        for (group, subscription) in after.subscriptions {
            let former = before?.subscriptions[group]
            if subscription.isActive, let announced = subscription.announced, former?.announced != announced {
                events.append("subscription.expiring \(group)")
            }
            if !subscription.isActive, former?.isActive == true { events.append("subscription.expired \(group)") }
        }
        let granted = before?.granted ?? []
        events += after.granted.subtracting(granted).map { "access.granted \($0)" }
        events += granted.subtracting(after.granted).map { "access.revoked \($0)" }
        return events
    }
}

extension SQLValue {
    /// The text, or the number in decimal; empty for null.
    var words: String {
        switch self {
        case .null: ""
        case .integer(let number): "\(number)"
        case .text(let text): text
        }
    }

    /// The number; `nil` for any other value.
    var count: Int64? { if case .integer(let number) = self { number } else { nil } }
}
