import Entitlements
import SyncService

/// One transaction of RevenueCat's data: a row of the transactions export, or a part of a v1 subscriber.
struct RevenueCatTransaction {
    /// The ids of the customer, the one that the app uses first.
    var ids: [String]
    var product: String
    /// The store in RevenueCat's words, such as `app_store`.
    var store: String
    /// The store's id of the transaction; `nil` if the data has none.
    var transaction: String?
    /// The store's id of the first transaction of the subscription; `nil` if it is unknown.
    var original: String?
    var start: Timestamp
    var end: Timestamp?
    var refunded: Timestamp?
    /// The date from which RevenueCat's statement is.
    var stated: Timestamp
    /// The date at which RevenueCat saw the customer first.
    var firstSeen: Timestamp?
    var quantity: Int64 = 1
    var isSandbox = false
    var isIntroductory = false
    var isFamilyShared = false
    /// The end of a pause.
    var resumes: Timestamp?
    /// True if the data states a cancellation or a billing problem.
    var hasRenewalState = false

    /// The text that describes it in reports.
    var summary: String {
        "\(product.singleLine) \(store.singleLine) \(transaction?.singleLine ?? "-") from \(start)"
            + (end.map { " until \($0)" } ?? "")
    }

    /// The id of the app first, then those that RevenueCat made for a customer who was not logged in.
    ///
    /// - Parameter candidates: The ids, the preferred one first.
    static func sorted(_ candidates: [String?]) -> [String] {
        var ids: [String] = []
        for id in candidates.compactMap(\.self) where !id.isEmpty {
            if !ids.contains(where: { $0.utf8.elementsEqual(id.utf8) }) { ids.append(id) }
        }
        let named = ids.filter { !isAnonymous($0) }
        return named + ids.filter(isAnonymous)
    }

    private static func isAnonymous(_ id: String) -> Bool { id.hasPrefix(CustomerImport.anonymousPrefix) }

    /// Reads a date: RFC 3339, or `2023-01-01 08:27:06` in UTC.
    static func date(_ text: String, _ name: String) throws(InputError) -> Timestamp {
        for form in [text, text + "Z"] {
            if let date = try? Timestamp(form) { return date }
        }
        throw InputError(path: name, reason: "\"\(text.singleLine)\" is not a date")
    }
}

// MARK: The transactions export

/// The columns of RevenueCat's transactions export, of all its versions, that matter.
struct RevenueCatColumns {
    private let indices: [String: Int]

    /// Checks the columns of a file.
    ///
    /// - Throws: `InputError` with the names of the columns that are missing.
    init(_ columns: [String]) throws(InputError) {
        indices = Dictionary(columns.enumerated().map { ($1, $0) }) { first, _ in first }
        let required = [
            ["rc_original_app_user_id"], ["product_identifier"], ["start_time", "purchase_date"], ["store"],
            ["is_sandbox"], ["store_transaction_id"],
        ]
        let missing = required.filter { names in !names.contains { indices[$0] != nil } }
        guard missing.isEmpty else {
            let names = missing.map { $0.joined(separator: " or ") }.joined(separator: ", ")
            throw InputError(
                path: "line 1",
                reason: "this is no transactions export of RevenueCat: it has no column \(names); select it there")
        }
    }

    /// Reads a row.
    func transaction(_ values: [String]) throws(InputError) -> RevenueCatTransaction {
        func text(_ names: String...) -> String? {
            for name in names {
                guard let index = indices[name] else { continue }
                let value = values[index]
                if !["", "null", "NULL", "\\N"].contains(value) { return value }
            }
            return nil
        }
        func date(_ names: String...) throws(InputError) -> Timestamp? {
            for name in names {
                if let value = text(name) { return try RevenueCatTransaction.date(value, name) }
            }
            return nil
        }
        func flag(_ name: String) throws(InputError) -> Bool {
            switch text(name)?.lowercased() {
            case nil, "false", "f", "0": return false
            case "true", "t", "1": return true
            case let other?: throw InputError(path: name, reason: "true or false is expected, not \(other.singleLine)")
            }
        }
        let ids = RevenueCatTransaction.sorted([
            text("rc_last_seen_app_user_id_alias"), text("rc_original_app_user_id"),
        ])
        guard !ids.isEmpty else {
            throw InputError(path: "rc_original_app_user_id", reason: "the row names no customer")
        }
        guard let product = text("product_identifier") else {
            throw InputError(path: "product_identifier", reason: "the row names no product")
        }
        guard let start = try date("start_time", "purchase_date") else {
            throw InputError(path: "start_time", reason: "the row has no date of the purchase")
        }
        let quantity = text("quantity")
        guard let count = Int64(quantity ?? "1"), Purchase.quantityRange.contains(count) else {
            throw InputError(path: "quantity", reason: "1 to 10,000 is expected, not \(quantity?.singleLine ?? "")")
        }
        let refunded = try date("refunded_at")
        let (isTrial, isIntroductory) = (try flag("is_trial_period"), try flag("is_in_intro_offer_period"))
        return RevenueCatTransaction(
            ids: ids, product: product, store: text("store") ?? "", transaction: text("store_transaction_id"),
            original: text("original_store_transaction_id"), start: start, end: try date("end_time"),
            refunded: refunded, stated: try date("updated_at") ?? refunded ?? start,
            firstSeen: try date("first_seen_time"), quantity: count, isSandbox: try flag("is_sandbox"),
            isIntroductory: isTrial || isIntroductory,
            isFamilyShared: text("ownership_type")?.uppercased() == "FAMILY_SHARED",
            resumes: try date("auto_resume_time"),
            hasRenewalState: text("unsubscribe_detected_at", "billing_issues_detected_at") != nil)
    }
}

// MARK: The answer of GET /v1/subscribers/{app_user_id}

extension RevenueCatTransaction {
    /// Reads an answer, or the value of its member `subscriber`. Beside it, `app_user_id` may state the id that was
    /// asked for, which the answer itself does not contain.
    static func all(in document: JSON) throws(InputError) -> [RevenueCatTransaction] {
        guard let subscriber = (document["subscriber"] ?? document).members,
            subscriber["subscriptions"] != nil || subscriber["non_subscriptions"] != nil
        else {
            throw InputError(path: "", reason: "this is no answer of GET /v1/subscribers/{app_user_id} of RevenueCat")
        }
        let ids = sorted([document["app_user_id"]?.string, subscriber["original_app_user_id"]?.string])
        guard !ids.isEmpty else {
            throw InputError(path: "original_app_user_id", reason: "the subscriber has no id; add \"app_user_id\"")
        }
        let requested = document["request_date"]?.string ?? subscriber["last_seen"]?.string
        let stated = try requested.map { (text) throws(InputError) in try date(text, "request_date") }
        let firstSeen = try subscriber["first_seen"]?.string.map { (text) throws(InputError) in
            try date(text, "first_seen")
        }
        var items: [(String, JSON)] = []
        for (product, value) in (subscriber["subscriptions"]?.members ?? [:]).sorted(by: { $0.key < $1.key }) {
            items.append((product, value))
        }
        for (product, value) in (subscriber["non_subscriptions"]?.members ?? [:]).sorted(by: { $0.key < $1.key }) {
            for element in value.elements ?? [] { items.append((product, element)) }
        }
        var transactions: [RevenueCatTransaction] = []
        for (product, value) in items {
            transactions.append(try RevenueCatTransaction(value, product, ids, stated: stated, firstSeen: firstSeen))
        }
        return transactions
    }

    private init(
        _ value: JSON, _ product: String, _ ids: [String], stated: Timestamp?, firstSeen: Timestamp?
    ) throws(InputError) {
        let path = product.singleLine
        guard let members = value.members else { throw InputError(path: path, reason: "an object is expected") }
        func date(_ name: String) throws(InputError) -> Timestamp? {
            guard let text = members[name]?.string else { return nil }
            return try Self.date(text, "\(path).\(name)")
        }
        guard let start = try date("purchase_date") else {
            throw InputError(path: path, reason: "it has no purchase_date")
        }
        var sandbox = false
        if case .bool(let flag)? = members["is_sandbox"] { sandbox = flag }
        let refunded = try date("refunded_at")
        let (cancelled, problem) = (try date("unsubscribe_detected_at"), try date("billing_issues_detected_at"))
        self.init(
            ids: ids, product: product, store: members["store"]?.string ?? "",
            transaction: members["store_transaction_id"]?.string, start: start, end: try date("expires_date"),
            refunded: refunded, stated: stated ?? refunded ?? start, firstSeen: firstSeen, isSandbox: sandbox,
            isIntroductory: ["trial", "intro"].contains(members["period_type"]?.string),
            isFamilyShared: members["ownership_type"]?.string == "FAMILY_SHARED",
            resumes: try date("auto_resume_date"),
            hasRenewalState: cancelled != nil || problem != nil)
    }
}
