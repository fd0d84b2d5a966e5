extension Action {
    /// The action as a Swift expression.
    var source: String {
        switch self {
        case .buy(let sale): ".buy(\(sale.source))"
        case .refund(let id, let isSigned): ".refund(\(id.source), isSigned: \(isSigned))"
        case .reinstate(let id, let isSigned): ".reinstate(\(id.source), isSigned: \(isSigned))"
        case .use(let entitlement, let id): ".use(\(entitlement.source), id: \(id.source))"
        case .flag(let product, let isSet): ".flag(\(product.source), isSet: \(isSet))"
        case .assert(let group, let until, let source):
            ".assert(group: \(group.source), until: \(until.source), source: \(source.source))"
        case .echo(let group, let source): ".echo(group: \(group.source), source: \(source.source))"
        case .defer(let product, let isWithdrawn): ".defer(\(product.source), isWithdrawn: \(isWithdrawn))"
        case .writeUnknown(let id): ".writeUnknown(id: \(id.source))"
        case .present(let statement, let isRestore): ".present(\(statement.source), isRestore: \(isRestore))"
        case .forge(let statement): ".forge(\(statement.source))"
        case .sync: ".sync"
        case .restore: ".restore"
        case .look: ".look"
        case .createAccount(let name): ".createAccount(\(name.source))"
        case .logIn(let name, let adopts): ".logIn(\(name.source), adoptsAnonymous: \(adopts))"
        case .logOut: ".logOut"
        case .erase(let name): ".erase(\(name.source))"
        default: faultSource
        }
    }

    private var faultSource: String {
        switch self {
        case .start: ".start"
        case .crash(let count): ".crash(afterOperations: \(count.source))"
        case .backUp: ".backUp"
        case .putBack: ".putBack"
        case .wipe: ".wipe"
        case .lose: ".lose"
        case .fill(let duration): ".fill(\(duration.source))"
        case .moveClock(let amount): ".moveClock(\(amount.source))"
        case .cut(let requests, let answers, let duration):
            ".cut(requests: \(requests), answers: \(answers), \(duration.source))"
        case .backUpRemote: ".backUpRemote"
        case .putBackRemote: ".putBackRemote"
        case .wipeRemote: ".wipeRemote"
        case .moveRemoteClock(let amount, let duration): ".moveRemoteClock(\(amount.source), for: \(duration.source))"
        case .fillRemote(let duration): ".fillRemote(\(duration.source))"
        case .lie(let lie): ".lie(\(lie.source))"
        case .notify(let statement): ".notify(\(statement.source))"
        case .claim(let claim, let account): ".claim(\(claim.source), account: \(account.source))"
        case .buy, .refund, .reinstate, .use, .flag, .assert, .echo, .defer, .writeUnknown, .present, .forge, .sync,
            .restore, .look, .createAccount, .logIn, .logOut, .erase:
            source
        }
    }
}

extension Sale {
    fileprivate var source: String {
        var arguments = [transaction.source, "of: \(product.source)"]
        if quantity != 1 { arguments.append("quantity: \(quantity.source)") }
        if let date { arguments.append("date: \(date.source)") }
        if isSigned { arguments.append("isSigned: true") }
        return "Sale(" + arguments.joined(separator: ", ") + ")"
    }
}

extension StoreStatement {
    fileprivate var source: String {
        var arguments = [
            transaction.source, "of: \(product.source)", "date: \(date.source)", "signedAt: \(signedAt.source)",
        ]
        if let revokedAt { arguments.append("revokedAt: \(revokedAt.source)") }
        if let expires { arguments.append("expires: \(expires.source)") }
        if let original { arguments.append("original: \(original.source)") }
        if let account { arguments.append("account: \(account.source)") }
        return "StoreStatement(" + arguments.joined(separator: ", ") + ")"
    }
}

extension ClientClaim {
    fileprivate var source: String {
        switch self {
        case .purchase(let id, let product): ".purchase(\(id.source), of: \(product.source))"
        case .flag(let product): ".flag(\(product.source))"
        case .expiry(let group): ".expiry(group: \(group.source))"
        case .reversal(let id): ".reversal(\(id.source))"
        case .refund(let id): ".refund(\(id.source))"
        case .grace(let id): ".grace(\(id.source))"
        case .evidence(let statement): ".evidence(\(statement.source))"
        }
    }
}

extension MaliciousWrite {
    fileprivate var source: String {
        switch self {
        case .oldContent: ".oldContent"
        case .deletion: ".deletion"
        case .garbage(let duration): ".garbage(\(duration.source))"
        case .laterFormat(let duration): ".laterFormat(\(duration.source))"
        case .forgedRefunds: ".forgedRefunds"
        }
    }
}

extension BinaryInteger {
    /// A literal with its digits in groups of three.
    var source: String {
        let digits = String(magnitude)
        var literal = self < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { literal += "_" }
            literal.append(digit)
        }
        return literal
    }
}

extension String {
    /// A string literal.
    var source: String { "\"\(swiftEscaped)\"" }

    /// The text between the quotation marks of a literal.
    var swiftEscaped: String {
        var escaped = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "\"": escaped += "\\\""
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\r": escaped += "\\r"
            case "\t": escaped += "\\t"
            case _ where scalar.isInvisible:
                escaped += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}

extension Unicode.Scalar {
    /// True if the character is invisible in source code or changes the order of the text.
    fileprivate var isInvisible: Bool {
        [.control, .format, .lineSeparator, .paragraphSeparator].contains(properties.generalCategory)
    }
}
