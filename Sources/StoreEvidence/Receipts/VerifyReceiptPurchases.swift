#if Evidence
import Entitlements

/// The purchases of an answer of `verifyReceipt`.
struct VerifyReceiptPurchases {
    /// The purchases, in ascending order of their dates.
    let all: [ReceiptPurchase]
    /// The account token, if all purchases that have one agree.
    let accountToken: String?

    init(answer: JSONObjectReader, receipt: JSONObjectReader) throws {
        var tokens: Set<String> = []
        let latest = try Self.purchases(in: answer["latest_receipt_info"], &tokens)
        let older = try Self.purchases(in: receipt["in_app"], &tokens)
        for (transaction, entry) in older {
            guard let other = latest[transaction], other.purchase.product != entry.purchase.product else { continue }
            throw InputError(
                path: "\(entry.path).product_id", reason: "\(other.path) states another product for this transaction")
        }
        all = latest.merging(older) { newer, _ in newer }.values.map(\.purchase).sorted(by: ReceiptPurchase.precedes)
        accountToken = tokens.count == 1 ? tokens.first : nil
    }

    private typealias Entry = (purchase: ReceiptPurchase, path: String)

    private static func purchases(in list: JSONReader?, _ tokens: inout Set<String>) throws
        -> [TransactionID: Entry]
    {
        var entries: [TransactionID: Entry] = [:]
        for reader in try list?.array() ?? [] {
            let members = try reader.object()
            let purchase = try ReceiptPurchase(members, path: reader.path)
            if let other = entries.updateValue((purchase, reader.path), forKey: purchase.transaction),
                other.purchase != purchase
            {
                throw reader.error("the transaction is stated differently by \(other.path)")
            }
            if let token = try members["app_account_token"]?.string(), !token.isEmpty {
                tokens.insert(token.lowercased())
            }
        }
        return entries
    }
}

/// The renewal states of an answer of `verifyReceipt`.
struct VerifyReceiptRenewals {
    /// The states, in ascending order of their lines.
    let all: [RenewalState]
    /// The entries that were left out because a required member is missing, and the reasons.
    let warnings: [String]

    /// Reads the states of the subscriptions in `purchases`.
    ///
    /// Entries of 2017 have no `original_transaction_id`. They belong to the only subscription with their product.
    init(
        _ answer: JSONObjectReader, of purchases: [ReceiptPurchase], environment: EnvironmentID, stamp: Stamp
    ) throws {
        var states: [TransactionReference: RenewalState] = [:]
        var warnings: [String] = []
        var unnamed: [(reader: JSONReader, state: RenewalState)] = []
        for reader in try answer["pending_renewal_info"]?.array() ?? [] {
            let members = try reader.object()
            let id = try members["original_transaction_id"]?.validIdentifier()
            let line: Result<TransactionID, Lack> =
                if let id { .success(TransactionID(id)) } else { try Self.line(of: members, among: purchases) }
            switch line {
            case .failure(let lack): warnings.append("\(reader.path) is left out: \(lack.reason)")
            case .success where members["auto_renew_status"] == nil:
                warnings.append("\(reader.path) is left out: it has no auto_renew_status")
            case .success(let line):
                let state = try Self.state(members, line: line, environment: environment, stamp: stamp)
                guard id != nil else {
                    unnamed.append((reader, state))
                    continue
                }
                if let other = states.updateValue(state, forKey: state.line), other != state {
                    throw reader.error("the renewal of this original_transaction_id is stated twice, differently")
                }
            }
        }
        for (reader, state) in unnamed {
            guard let other = states[state.line] else {
                states[state.line] = state
                continue
            }
            guard other != state else { continue }
            warnings.append("\(reader.path) is left out: another entry states the same subscription differently")
        }
        all = states.values.sorted { $0.line < $1.line }
        self.warnings = warnings
    }

    /// The reason why the subscription of an entry is unknown.
    private struct Lack: Error {
        var reason: String
    }

    /// Returns the first transaction of the only subscription with the product of an entry.
    private static func line(
        of members: JSONObjectReader, among purchases: [ReceiptPurchase]
    ) throws -> Result<TransactionID, Lack> {
        let missing = "it has no original_transaction_id"
        guard let reader = members["product_id"] ?? members["auto_renew_product_id"] else {
            return .failure(Lack(reason: missing + " and no product_id"))
        }
        let product = ProductID(try reader.validIdentifier())
        let lines = Set(purchases.filter { $0.product == product }.map { $0.original ?? $0.transaction })
        guard lines.count == 1, let line = lines.first else {
            return .failure(
                Lack(reason: "\(missing), and \(lines.count) subscriptions have the product \"\(product)\""))
        }
        return .success(line)
    }

    private static func state(
        _ members: JSONObjectReader, line: TransactionID, environment: EnvironmentID, stamp: Stamp
    ) throws -> RenewalState {
        let willRenew = try members.required("auto_renew_status").switchedOn()
        let product = try members["product_id"]?.validIdentifier()
        let next = try members["auto_renew_product_id"]?.validIdentifier()
        return RenewalState(
            line: TransactionReference(store: .appStore, environment: environment, id: line), willRenew: willRenew,
            graceEnd: try members["grace_period_expires_date_ms"]?.date(unit: 1),
            isInBillingRetry: try members["is_in_billing_retry_period"]?.switchedOn() ?? false,
            pendingProduct: RenewalState.pendingProduct(
                next.map { ProductID($0) }, after: product.map { ProductID($0) }, willRenew: willRenew),
            stamp: stamp)
    }
}

extension ReceiptPurchase {
    /// Reads an element of `latest_receipt_info` or `in_app`.
    fileprivate init(_ members: JSONObjectReader, path: String) throws {
        transaction = TransactionID(try members.required("transaction_id").validIdentifier())
        product = ProductID(try members.required("product_id").validIdentifier())
        date = try members.required("purchase_date_ms").date(unit: 1)
        quantity = try members["quantity"]?.wholeNumber() ?? 1
        try checkQuantity(quantity, "\(path).quantity")
        original = try members["original_transaction_id"].flatMap { (reader) throws(InputError) in
            try reader.identifier().isEmpty ? nil : TransactionID(try reader.validIdentifier())
        }
        expiry = try members["expires_date_ms"]?.date(unit: 1)
        let isTrial = try members["is_trial_period"]?.flag() ?? false
        let isIntroductory = try members["is_in_intro_offer_period"]?.flag() ?? false
        self.isIntroductory = isTrial || isIntroductory
        lineItem = try members["web_order_line_item_id"]?.lineItem()
        let cancelledAt = try members["cancellation_date_ms"]?.date(unit: 1)
        let isUpgraded = try members["is_upgraded"]?.flag() ?? false
        (revokedAt, upgradedAt) = isUpgraded ? (nil, cancelledAt) : (cancelledAt, nil)
    }
}

/// Apple writes flags as strings. Servers that store answers often convert them, so both are read.
extension JSONReader {
    fileprivate func flag() throws(InputError) -> Bool {
        switch value {
        case .bool(let flag): return flag
        case .string("true"): return true
        case .string("false"): return false
        default: throw error("must be \"true\" or \"false\"")
        }
    }

    /// The id of a period of a subscription; `nil` for 0, which stands for none.
    fileprivate func lineItem() throws(InputError) -> TransactionID? {
        let text = try identifier()
        return text.isEmpty || text == "0" ? nil : TransactionID(try validIdentifier())
    }

    fileprivate func switchedOn() throws(InputError) -> Bool {
        let number = try wholeNumber()
        guard number == 0 || number == 1 else { throw error("must be \"0\" or \"1\", not \(number)") }
        return number == 1
    }

    fileprivate func validIdentifier() throws(InputError) -> String {
        let text = try identifier()
        do {
            try ProductID(text).validate()
        } catch {
            throw self.error("\(error)")
        }
        return text
    }
}
#endif
