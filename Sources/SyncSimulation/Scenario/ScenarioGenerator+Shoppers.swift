import SyncCoreTesting

extension ScenarioGenerator {
    /// Adds one of the usual activities of a shopper.
    mutating func addShopping() {
        switch random.pick(0...11) {
        case 0...3: buy()
        case 4: buyStack()
        case 5: buyConcurrently()
        case 6: buySeenTransaction()
        case 7: if traits.refunds { refundOne() } else { buy() }
        case 8: buyAndSpend()
        case 9: setFlags()
        case 10: if traits.hasOldServer { addLegacyStatements() } else { buy() }
        default: addRareAction()
        }
    }

    private func products(on device: Int) -> [String] {
        scenario.devices[device].catalog == 0
            ? ["month", "quarter", "half", "week", "owl", "crown", "coins"] : ["month", "quarter", "owl", "coins"]
    }

    @discardableResult
    private mutating func buy(
        _ product: String? = nil, on device: Int? = nil, at time: Int64? = nil
    ) -> Sale {
        let device = device ?? anyDevice
        let time = time ?? anyTime
        let products = products(on: device)
        let product = product ?? random.pick(products)
        let isSigned = random.happens(perMille: 300)
        var sale = Sale(newID("t"), of: product, isSigned: isSigned)
        if random.happens(perMille: 150) { sale.quantity = random.pick(2...4) }
        // A store's purchase has the store's date and may reach the device later.
        if isSigned || random.happens(perMille: 300) {
            sale.date = max(0, time - (random.happens(perMille: 300) ? random.pick(0...60 * World.day) : 0))
        }
        sales.append((sale, device, time))
        add(.buy(sale), at: time, on: device, process: anyProcess)
        return sale
    }

    /// Buys again before the previous period ends, several times.
    private mutating func buyStack() {
        let device = anyDevice
        var time = anyTime
        for _ in 0..<random.pick(2...4) {
            buy("quarter", on: device, at: min(time, Int64(scenario.days) * World.day - 1))
            time += random.pick(1...80) * World.day
        }
        if random.happens(perMille: 500) { add(.sync, at: time, on: device) }
    }

    /// Buys the same product on two devices, before they know of each other's purchase.
    private mutating func buyConcurrently() {
        let time = anyTime
        let first = anyDevice
        buy("quarter", on: first, at: time)
        buy("quarter", on: anyDevice, at: time + random.pick(0...5_000))
        for device in scenario.devices.indices where random.happens(perMille: 500) {
            add(.sync, at: time + random.pick(0...10_000), on: device)
        }
    }

    /// Lets another device see an existing purchase.
    private mutating func buySeenTransaction() {
        let device = anyDevice
        let time = anyTime
        guard traits.hasAccounts == false,
            let known = sales.first(where: {
                $0.sale.date != nil
                    && scenario.devices[$0.device].catalog == scenario.devices[device].catalog
            })
        else {
            buy()
            return
        }
        // A purchase cannot be seen before it was made.
        add(.buy(known.sale), at: max(time, known.at), on: device, process: anyProcess)
    }

    private mutating func refundOne() {
        guard let known = sales.isEmpty ? nil : random.pick(sales) else { return }
        let sale = known.sale
        // On the device that bought it or on another one, afterwards or even before.
        let device = traits.hasAccounts || random.happens(perMille: 500) ? known.device : anyDevice
        let time = random.happens(perMille: 200) ? anyTime : known.at + random.pick(0...90 * World.day)
        add(.refund(sale.transaction, isSigned: sale.isSigned), at: time, on: device)
        if random.happens(perMille: 300) {
            add(
                .reinstate(sale.transaction, isSigned: sale.isSigned), at: time + random.pick(1...30 * World.day),
                on: device)
        }
    }

    private mutating func buyAndSpend() {
        let time = anyTime
        buy("coins", on: anyDevice, at: time)
        for _ in 0..<random.pick(1...7) {
            add(
                .use("random-owls", id: newID("s")), at: time + random.pick(0...40) * random.pick(0...World.hour),
                on: anyDevice, process: anyProcess)
        }
    }

    private mutating func setFlags() {
        add(.flag("owl", isSet: random.happens(perMille: 700)), at: anyTime, on: anyDevice)
        if random.happens(perMille: 300) { add(.flag("owl", isSet: false), at: anyTime, on: anyDevice) }
    }

    /// Lets a server of the tutorials' kind assert expiries.
    private mutating func addLegacyStatements() {
        let time = anyTime
        let device = anyDevice
        if random.happens(perMille: 500) {
            add(
                .assert(group: "random", until: time + random.pick(-30...200) * World.day, source: "parse"), at: time,
                on: device)
        }
        for _ in 0..<random.pick(1...3) { add(.echo(group: "random", source: "parse"), at: anyTime, on: anyDevice) }
    }

    private mutating func addRareAction() {
        switch random.pick(0...3) {
        case 0: if traits.hasUnknownKinds { add(.writeUnknown(id: newID("t")), at: anyTime, on: anyDevice) }
        case 1:
            let (device, time) = (anyDevice, anyTime)
            add(.defer("quarter", isWithdrawn: false), at: time, on: device)
            if random.happens(perMille: 400) { add(.defer("quarter", isWithdrawn: true), at: anyTime, on: device) }
        default: add(.look, at: anyTime, on: anyDevice, process: anyProcess)
        }
    }

    /// Lets devices sync, restore and read access.
    mutating func addSyncs() {
        let device = anyDevice
        switch random.pick(0...9) {
        case 0...5: add(.sync, at: anyTime, on: device, process: anyProcess)
        case 6: add(.restore, at: anyTime, on: device, process: anyProcess)
        case 7: add(.look, at: anyTime, on: device, process: anyProcess)
        default:
            let time = anyTime
            for device in scenario.devices.indices {
                add(.sync, at: time + random.pick(0...2_000), on: device, process: anyProcess)
            }
        }
    }
}

extension ScenarioGenerator {
    /// Adds accounts that are created and log in and out, some with earlier anonymous purchases.
    mutating func drawAccounts() {
        let names = random.happens(perMille: 500) ? ["alice", "bob"] : ["alice"]
        let end = Int64(scenario.days) * World.day
        for name in names {
            add(.createAccount(name), at: random.pick(0...World.hour), on: anyDevice)
            if random.happens(perMille: 200) {
                add(.createAccount(name), at: random.pick(0...World.hour), on: anyDevice)
            }
        }
        for device in scenario.devices.indices {
            var time = random.pick(0...end / 3)
            if random.happens(perMille: 400) { buy(on: device, at: random.pick(0...time)) }
            for _ in 0..<random.pick(1...4) {
                let name = random.pick(names)
                let (adopts, process) = (random.happens(perMille: 500), anyProcess)
                if adopts, traits.crashes, random.happens(perMille: 300) {
                    interruptAdoption(at: time, on: device, process, names)
                }
                add(.logIn(name, adoptsAnonymous: adopts), at: time, on: device, process: process)
                time += random.pick(0...end / 4)
                if random.happens(perMille: 400) {
                    add(.logOut, at: time, on: device)
                    if random.happens(perMille: 500) { buy(on: device, at: time + random.pick(0...end / 10)) }
                    time += random.pick(0...end / 10)
                }
            }
        }
        guard traits.erases, let name = names.last else { return }
        let time = random.pick(end / 3...end)
        add(.erase(name), at: time, on: anyDevice)
        if random.happens(perMille: 500) {
            let again = time + random.pick(0...World.day)
            add(.createAccount(name), at: again, on: anyDevice)
            if random.happens(perMille: 500) {
                add(.createAccount(name), at: again + random.pick(0...200), on: anyDevice)
            }
            for device in scenario.devices.indices where random.happens(perMille: 600) {
                add(.logIn(name, adoptsAnonymous: false), at: time + random.pick(0...5 * World.day), on: device)
            }
        }
    }

    /// Crashes the process while it adopts an anonymous ledger, and lets another log-in follow.
    private mutating func interruptAdoption(at time: Int64, on device: Int, _ process: Int, _ names: [String]) {
        let begin = max(0, time - random.pick(1...5_000))
        buy(on: device, at: begin)
        add(.look, at: begin, on: device, process: process)
        add(.crash(afterOperations: Int(random.pick(5...40))), at: max(0, time - 1), on: device, process: process)
        let next = random.pick(names)
        add(.logIn(next, adoptsAnonymous: true), at: time + random.pick(1...World.day), on: device, process: process)
    }
}
