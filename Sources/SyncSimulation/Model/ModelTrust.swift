/// The policy of an account's server on statements of clients.
enum ModelPolicy: String { case trusted, verified }

/// Evidence that a device keeps until the account's server has answered it.
struct ModelEvidence: Equatable {
    var data: [UInt8]
    /// The facts that the evidence proves.
    var facts: ModelLedger
}

extension ModelFacts {
    /// The facts that count for an account on one device.
    ///
    /// The server's word about a subject replaces every other statement about it. Evidence on the device is as good as
    /// the server's word under `verified`; under `trusted` it competes with the statements of clients, or with the
    /// server's word if there is one. Under `verified` the rest of what clients state can only take away.
    init(account: ModelLedger, device: ModelLedger, server: ModelLedger) {
        let policy = server.facts.policy
        var word = ModelLedger(server.records.filter(\.overrides))
        let proven = device.facts.evidence.reduce(ModelLedger()) { proven, evidence in
            // Evidence states no terms. Those of the server apply if it states the same product, and are compared too.
            .join(proven, ModelLedger(evidence.facts.records.map { $0.named(as: word[$0.key]) }))
        }
        var known = ModelLedger.join(account, device)
        switch policy {
        case .verified: word = .join(word, proven)
        case .trusted:
            known = .join(known, proven)
            let stated = word
            word = .join(word, ModelLedger(proven.records.filter { stated[$0.key] != nil }))
        }
        let claims = known.records.filter { word[$0.key] == nil && (policy == .trusted || !$0.grants) }
        self = ModelLedger(word.records + claims).facts
        self.policy = policy
        verified = Set(word.facts.transactions)
        verifiedStatuses = Set(word.facts.revocations.map(\.transaction))
    }
}

extension ModelRecord {
    /// The field number of the kind of fact in the key.
    private var kind: UInt8? { key.first.flatMap { $0 % 8 == 2 ? $0 / 8 : nil } }

    /// True for statements that the server's word replaces: purchases, revocations, renewal states, assertions and
    /// flags.
    var overrides: Bool { kind.map { (1...7).contains($0) && $0 != 2 } ?? false }

    /// True for evidence that waits for the server's answer.
    var isEvidence: Bool { kind == 15 }

    /// True for a purchase.
    var isPurchase: Bool { kind == 1 }

    /// True for a revocation or a reinstatement.
    var isRevocation: Bool { kind == 3 }

    /// Returns this record of a purchase with the terms that `known` states about it, if it has none and both state the
    /// same product.
    fileprivate func named(as known: ModelRecord?) -> ModelRecord {
        guard let known, let stated = try? ModelMessage(known.payload), let own = try? ModelMessage(payload),
            let purchase = ModelLedger([self]).facts.purchases.first, purchase.terms == nil,
            let other = ModelLedger([known]).facts.purchases.first, other.terms != nil,
            purchase.product == other.product
        else { return self }
        let terms = zip(stated.numbers, stated.parts).filter { $0.0 == 2 }.flatMap(\.1)
        var named = self
        named.payload = own.parts[..<1].flatMap { $0 } + terms + own.parts[1...].flatMap { $0 }
        return named
    }

    /// True for a statement other than a purchase that can grant or prolong access.
    fileprivate var grants: Bool {
        switch kind {
        case 3: ModelLedger([self]).facts.revocations.contains(where: \.isReinstated)
        case 4, 5, 6: true
        default: false
        }
    }
}
