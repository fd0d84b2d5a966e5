package import Entitlements
import HTTPTypes
import StoreEvidence

/// An act of an operator on one customer, as it is asked for.
package struct OperatorAct: Hashable, Sendable {
    /// The kinds of acts, by their names in the audit list.
    package enum Kind: String, Hashable, Sendable, Codable {
        /// Gives access.
        case grant
        /// Takes the access that a purchase gives.
        case refund
        /// Gives the access of a refunded purchase again.
        case reinstatement
        /// Moves a purchase to another account.
        case transfer
        /// Creates a single-use recovery code.
        case recovery
        /// Erases the account.
        case erasure
        /// Ends sessions.
        case sessions
    }

    /// The kind.
    package var kind: Kind
    /// The account, in any spelling that ``OperatorActs`` resolves.
    package var account: String
    /// The person or program that acts.
    package var actor: String
    /// The reason.
    package var reason: String
    /// The other members of the request, as JSON.
    package var parameters: ActParameters

    /// Creates a value.
    package init(
        _ kind: Kind, account: String, actor: String, reason: String, parameters: ActParameters = ActParameters([:])
    ) {
        (self.kind, self.account, self.actor, self.reason) = (kind, account, actor, reason)
        self.parameters = parameters
    }

    /// The act that a request asks for.
    ///
    /// - Parameter members: The members of the request, with its reason.
    /// - Throws: ``RequestError`` for a missing reason, and for members that the act does not have.
    init(
        _ kind: Kind, on account: String, _ members: [String: JSON], by caller: OperatorCaller
    ) throws(RequestError) {
        guard let reason = members["reason"]?.string else {
            throw RequestError(.badRequest, "the member \"reason\" is required: a text for the audit list")
        }
        let parameters = try ActParameters(members, known: kind.members)
        let isReinstatement = kind == .refund && parameters.flag("reinstate")
        self.init(
            isReinstatement ? .reinstatement : kind, account: account, actor: caller.name, reason: reason,
            parameters: parameters)
    }

    /// The digest of the request. The same request of another operator has the same digest.
    var digest: String {
        hexadecimalDigest(of: [kind.rawValue, account, reason, parameters.text].joined(separator: "\u{0}"))
    }

    /// The largest reason, in bytes.
    package static let reasonByteCount = 1_000

    /// Checks reason and actor.
    func check() throws(RequestError) {
        guard (1...Self.reasonByteCount).contains(reason.utf8.count), !reason.allSatisfy(\.isWhitespace) else {
            throw RequestError(
                .badRequest,
                "the member \"reason\" must be a text of 1 to \(Self.reasonByteCount) bytes, not \(reason.utf8.count)")
        }
        // A terminal or a page may interpret them.
        guard reason.isPrintable else {
            throw RequestError(.badRequest, "the member \"reason\" must be one line without control characters")
        }
        guard (1...255).contains(actor.utf8.count) else {
            throw RequestError(.badRequest, "the operator's name must have 1 to 255 bytes, not \(actor.utf8.count)")
        }
    }

    /// Checks an idempotency key.
    package static func check(key: String) throws(RequestError) {
        guard (1...255).contains(key.utf8.count), key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw RequestError(
                .badRequest, "the header Idempotency-Key must be 1 to 255 visible ASCII characters, such as a UUID")
        }
    }
}

/// The members of an act besides its reason.
package struct ActParameters: Hashable, Sendable {
    /// The canonical JSON.
    let text: String
    private let texts: [String: String]
    private let numbers: [String: Int64]
    private let flags: [String: Bool]

    /// The members `members`. `nil` values are left out.
    package init(_ members: [String: JSON?]) {
        let members = members.compactMapValues { $0 }
        text = JSON.object(members).canonicalText
        texts = members.compactMapValues(\.string)
        numbers = members.compactMapValues { if case .number(let number) = $0 { number } else { nil } }
        flags = members.compactMapValues { if case .bool(let flag) = $0 { flag } else { nil } }
    }

    subscript(name: String) -> String? { texts[name] }

    /// The text member called `name`.
    func text(_ name: String) throws(RequestError) -> String {
        guard let text = texts[name] else {
            throw RequestError(.badRequest, "the member \"\(name)\" must be present, and a text")
        }
        return text
    }

    func number(_ name: String) -> Int64? { numbers[name] }
    func flag(_ name: String) -> Bool { flags[name] ?? false }

    func date(_ name: String) throws(RequestError) -> Timestamp? {
        guard let text = texts[name] else { return nil }
        do throws(TimestampError) { return try Timestamp(text) } catch {
            throw RequestError(.badRequest, "\(name): \(error)")
        }
    }

    /// The environment, or production.
    func environment() throws(RequestError) -> EnvironmentID {
        let environment = EnvironmentID(texts["environment"] ?? "production")
        do throws(IdentifierError) { try environment.validate() } catch {
            throw RequestError(.badRequest, "environment: \(error)")
        }
        return environment
    }

    /// The transaction that the members `store`, `environment` and `transaction` name.
    func transaction() throws(RequestError) -> TransactionReference {
        let reference = TransactionReference(
            store: StoreID(try text("store")), environment: try environment(),
            id: TransactionID(try text("transaction")))
        do throws(IdentifierError) {
            try reference.store.validate()
            try reference.id.validate()
        } catch { throw RequestError(.badRequest, "transaction: \(error)") }
        return reference
    }

    /// A request's members other than `reason`.
    ///
    /// - Parameters:
    ///   - members: The members of the body.
    ///   - known: The names of the members, with the types of their values.
    /// - Throws: ``RequestError`` for an unknown member, and for a value of another type.
    package init(_ members: [String: JSON], known: [String: MemberType]) throws(RequestError) {
        var kept: [String: JSON] = [:]
        for (name, value) in members.sorted(by: { $0.key < $1.key }) where name != "reason" {
            guard let type = known[name] else {
                throw RequestError(
                    .badRequest,
                    "unknown member \"\(name.singleLine)\"; known here: "
                        + (known.keys + ["reason"]).sorted().joined(separator: ", "))
            }
            if case .null = value { continue }
            guard type.admits(value) else {
                throw RequestError(
                    .badRequest, "the member \"\(name)\" must be \(type.rawValue), not \(value.typeName)")
            }
            kept[name] = value
        }
        self.init(kept)
    }

    /// The type of a member's value.
    package enum MemberType: String, Sendable {
        case text = "a text"
        case number = "a whole number"
        case flag = "true or false"

        fileprivate func admits(_ value: JSON) -> Bool {
            switch (self, value) {
            case (.text, .string), (.number, .number), (.flag, .bool): true
            default: false
            }
        }
    }
}

extension OperatorAct.Kind {
    /// The members of its requests besides `reason`.
    package var members: [String: ActParameters.MemberType] {
        switch self {
        case .grant:
            [
                "entitlement": .text, "group": .text, "product": .text, "until": .text, "for": .text, "level": .number,
                "source": .text, "environment": .text, "store": .text, "transaction": .text, "date": .text,
                "quantity": .number, "expires": .text, "original": .text, "introductory": .flag, "transfer": .flag,
            ]
        case .refund, .reinstatement:
            ["store": .text, "environment": .text, "transaction": .text, "date": .text, "reinstate": .flag]
        case .transfer: ["store": .text, "environment": .text, "transaction": .text, "to": .text]
        case .sessions: ["session": .text]
        case .recovery, .erasure: [:]
        }
    }
}

extension String {
    /// True for a text without characters that a terminal or a page interprets: controls, separators of lines, and
    /// changes of direction.
    fileprivate var isPrintable: Bool {
        unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator: false
            default: !(0x202A...0x202E).contains(scalar.value) && !(0x2066...0x2069).contains(scalar.value)
            }
        }
    }
}
