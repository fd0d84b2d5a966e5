import SyncCoreTesting

extension ScenarioGenerator {
    /// Adds purchases that the store signs: devices record them, and the store notifies the server.
    mutating func drawEvidence() {
        guard traits.verifies else { return }
        var statements: [StoreStatement] = []
        for _ in 0..<random.pick(1...5) { statements += sellWithEvidence() }
        if traits.claims {
            for _ in 0..<random.pick(1...6) { claim(about: statements) }
            if random.happens(perMille: 400) {
                let time = anyTime
                add(
                    .forge(StoreStatement(newID("e"), of: "half", date: time, signedAt: time)), at: time,
                    on: anyDevice)
            }
        }
    }

    /// Sells one product with all later statements about it.
    ///
    /// - Returns: The statements in the order of their signatures.
    private mutating func sellWithEvidence() -> [StoreStatement] {
        let (device, time) = (anyDevice, anyTime)
        let products = ["month", "quarter", "week", "owl", "coins", "club", "club"]
        let product = random.pick(products)
        var statement = StoreStatement(newID("e"), of: product, date: time, signedAt: time)
        if random.happens(perMille: 500) {
            statement.account = scenario.devices[device].account ?? (random.happens(perMille: 700) ? "alice" : "bob")
        }
        let renews = product == "club"
        if renews {
            statement.expires = time + 30 * World.day
            if random.happens(perMille: 500) { statement.product = "lounge" }
        }
        var statements = [statement]
        for _ in 0..<(renews ? random.pick(0...3) : 0) { statements.append(renewal(of: statements)) }
        statements += refunds(of: random.pick(statements))
        for statement in statements {
            deliver(statement, boughtOn: device, mustBeSeen: statement == statements[0])
        }
        if traits.losesLocalStores, random.happens(perMille: 300) { reinstall(device, statements) }
        return statements
    }

    /// The next renewal of the subscription that `statements` make up: of the same product, a downgrade at the end of
    /// the period, or an upgrade before it.
    private mutating func renewal(of statements: [StoreStatement]) -> StoreStatement {
        var renewal = statements[statements.count - 1]
        var date = renewal.expires ?? renewal.date
        if random.happens(perMille: 300) {
            if renewal.product == "lounge" { date -= random.pick(1...29) * random.pick(1...World.day) }
            renewal.product = renewal.product == "lounge" ? "club" : "lounge"
        }
        (renewal.transaction, renewal.original) = (newID("e"), statements[0].transaction)
        (renewal.date, renewal.signedAt, renewal.expires) = (date, date, date + 30 * World.day)
        return renewal
    }

    /// A refund, often with its reversal, and at times with another refund.
    private mutating func refunds(of statement: StoreStatement) -> [StoreStatement] {
        guard random.happens(perMille: 450) else { return [] }
        var statements: [StoreStatement] = []
        var last = statement
        for _ in 0..<random.pick(1...3) {
            last.signedAt += random.pick(1...40) * random.pick(1...World.day)
            last.revokedAt = last.revokedAt == nil ? last.signedAt - random.pick(0...1_000) : nil
            statements.append(last)
        }
        return statements
    }

    /// Lets devices and the server learn of a statement: at once, late, repeatedly, or one of them never.
    private mutating func deliver(_ statement: StoreStatement, boughtOn device: Int, mustBeSeen: Bool) {
        if mustBeSeen || random.happens(perMille: 500) {
            for _ in 0..<random.pick(1...2) {
                let delay = random.happens(perMille: 600) ? 0 : random.pick(0...20 * World.day)
                let (time, process) = (statement.signedAt + delay, anyProcess)
                if traits.crashes, random.happens(perMille: 250) {
                    let count = Int(random.pick(1...25))
                    add(.look, at: max(0, time - 500), on: device, process: process)
                    add(.crash(afterOperations: count), at: max(0, time - 1), on: device, process: process)
                }
                add(
                    .present(statement, isRestore: random.happens(perMille: 100)), at: time, on: device,
                    process: process)
                if random.happens(perMille: 400) { add(.sync, at: time + random.pick(0...5_000), on: device) }
            }
            if random.happens(perMille: 200) {
                add(.present(statement, isRestore: false), at: max(statement.signedAt, anyTime), on: anyDevice)
            }
        }
        guard random.happens(perMille: 600) else { return }
        for _ in 0..<random.pick(1...3) {
            let delay = random.happens(perMille: 500) ? random.pick(0...5_000) : random.pick(0...60 * World.day)
            add(.notify(statement), at: statement.signedAt + delay, on: nil)
        }
    }

    /// Empties the device's store, and restores with what the store still reports.
    private mutating func reinstall(_ device: Int, _ statements: [StoreStatement]) {
        let latest = statements.map(\.signedAt).max() ?? 0
        let time = latest + random.pick(1...20 * World.day)
        add(.wipe, at: time, on: device)
        for statement in statements {
            add(
                .present(statement, isRestore: random.happens(perMille: 600)), at: time + random.pick(1...5_000),
                on: device)
        }
    }

    /// Lets a client state something false, often about a transaction that the store signed.
    private mutating func claim(about statements: [StoreStatement]) {
        let known = random.pick(statements)
        let claim: ClientClaim
        switch random.pick(0...8) {
        case 0: claim = .purchase(newID("e"), of: "half")
        case 1, 2: claim = .purchase(known.transaction, of: random.happens(perMille: 500) ? known.product : "half")
        case 3: claim = .flag(random.happens(perMille: 500) ? "owl" : "crown")
        case 4: claim = .expiry(group: "random")
        case 5: claim = .reversal(known.transaction)
        case 6: claim = .refund(known.transaction)
        case 7: claim = .grace(known.original ?? known.transaction)
        default:
            let time = anyTime
            claim = .evidence(StoreStatement(newID("e"), of: "half", date: time, signedAt: time))
        }
        let account = !traits.hasAccounts || random.happens(perMille: 600) ? "alice" : "bob"
        add(.claim(claim, account: account), at: anyTime, on: nil)
    }
}
