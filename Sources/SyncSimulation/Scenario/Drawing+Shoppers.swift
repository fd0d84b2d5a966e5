import SyncCoreTesting

extension Drawing {
    /// A shopper does what shoppers of some kind do.
    mutating func shop() {
        switch dice.pick(0...11) {
        case 0...3: buy()
        case 4: stack()
        case 5: buyTwiceAtOnce()
        case 6: seeElsewhere()
        case 7: if traits.refunds { refund() } else { buy() }
        case 8: spend()
        case 9: mark()
        case 10: if traits.hasOldServer { state() } else { buy() }
        default: odd()
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
        let product = product ?? products[Int(dice.pick(0...Int64(products.count - 1)))]
        let isSigned = dice.happens(perMille: 300)
        var sale = Sale(newTransaction(), of: product, isSigned: isSigned)
        if dice.happens(perMille: 150) { sale.quantity = dice.pick(2...4) }
        // What a store sold has the store's date; what it sold may be seen only later.
        if isSigned || dice.happens(perMille: 300) {
            sale.date = max(0, time - (dice.happens(perMille: 300) ? dice.pick(0...60 * World.day) : 0))
        }
        sales.append((sale, device, time))
        add(.buy(sale), at: time, on: device, process: anyProcess)
        return sale
    }

    /// Buys the next one before the last one ends, several times.
    private mutating func stack() {
        let device = anyDevice
        var time = anyTime
        for _ in 0..<dice.pick(2...4) {
            buy("quarter", on: device, at: min(time, Int64(scenario.days) * World.day - 1))
            time += dice.pick(1...80) * World.day
        }
        if dice.happens(perMille: 500) { add(.sync, at: time, on: device) }
    }

    /// The same thing on two devices, before they know of each other.
    private mutating func buyTwiceAtOnce() {
        let time = anyTime
        let first = anyDevice
        buy("quarter", on: first, at: time)
        buy("quarter", on: anyDevice, at: time + dice.pick(0...5_000))
        for device in scenario.devices.indices where dice.happens(perMille: 500) {
            add(.sync, at: time + dice.pick(0...10_000), on: device)
        }
    }

    /// One purchase, seen by another device too.
    private mutating func seeElsewhere() {
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
        // Nobody sees it before it was made.
        add(.buy(known.sale), at: max(time, known.at), on: device, process: anyProcess)
    }

    private mutating func refund() {
        guard let known = sales.isEmpty ? nil : sales[Int(dice.pick(0...Int64(sales.count - 1)))] else { return }
        let sale = known.sale
        // On the device that bought it or on another, afterwards or even before.
        let device = traits.hasAccounts || dice.happens(perMille: 500) ? known.device : anyDevice
        let time = dice.happens(perMille: 200) ? anyTime : known.at + dice.pick(0...90 * World.day)
        add(.refund(sale.transaction, isSigned: sale.isSigned), at: time, on: device)
        if dice.happens(perMille: 300) {
            add(
                .reinstate(sale.transaction, isSigned: sale.isSigned), at: time + dice.pick(1...30 * World.day),
                on: device)
        }
    }

    private mutating func spend() {
        let time = anyTime
        buy("coins", on: anyDevice, at: time)
        for _ in 0..<dice.pick(1...7) {
            add(
                .use("random-owls", id: newSpend()), at: time + dice.pick(0...40) * dice.pick(0...World.hour),
                on: anyDevice, process: anyProcess)
        }
    }

    private mutating func mark() {
        add(.flag("owl", isSet: dice.happens(perMille: 700)), at: anyTime, on: anyDevice)
        if dice.happens(perMille: 300) { add(.flag("owl", isSet: false), at: anyTime, on: anyDevice) }
    }

    /// A server of the tutorials' kind states expiries.
    private mutating func state() {
        let time = anyTime
        let device = anyDevice
        if dice.happens(perMille: 500) {
            add(
                .assert(group: "random", until: time + dice.pick(-30...200) * World.day, source: "parse"), at: time,
                on: device)
        }
        for _ in 0..<dice.pick(1...3) { add(.echo(group: "random", source: "parse"), at: anyTime, on: anyDevice) }
    }

    private mutating func odd() {
        switch dice.pick(0...3) {
        case 0: if traits.hasUnknownKinds { add(.writeUnknown(id: newTransaction()), at: anyTime, on: anyDevice) }
        case 1:
            let (device, time) = (anyDevice, anyTime)
            add(.defer("quarter", isWithdrawn: false), at: time, on: device)
            if dice.happens(perMille: 400) { add(.defer("quarter", isWithdrawn: true), at: anyTime, on: device) }
        default: add(.look, at: anyTime, on: anyDevice, process: anyProcess)
        }
    }

    /// Devices sync, restore and look.
    mutating func keepInTouch() {
        let device = anyDevice
        switch dice.pick(0...9) {
        case 0...5: add(.sync, at: anyTime, on: device, process: anyProcess)
        case 6: add(.restore, at: anyTime, on: device, process: anyProcess)
        case 7: add(.look, at: anyTime, on: device, process: anyProcess)
        default:
            let time = anyTime
            for device in scenario.devices.indices {
                add(.sync, at: time + dice.pick(0...2_000), on: device, process: anyProcess)
            }
        }
    }
}

extension Drawing {
    /// Accounts are made, people log in and out, and some had bought before.
    mutating func drawAccounts() {
        let names = dice.happens(perMille: 500) ? ["alice", "bob"] : ["alice"]
        let end = Int64(scenario.days) * World.day
        for name in names {
            add(.createAccount(name), at: dice.pick(0...World.hour), on: anyDevice)
            if dice.happens(perMille: 200) { add(.createAccount(name), at: dice.pick(0...World.hour), on: anyDevice) }
        }
        for device in scenario.devices.indices {
            var time = dice.pick(0...end / 3)
            if dice.happens(perMille: 400) { buy(on: device, at: dice.pick(0...time)) }
            for _ in 0..<dice.pick(1...4) {
                let name = names[Int(dice.pick(0...Int64(names.count - 1)))]
                let (adopts, process) = (dice.happens(perMille: 500), anyProcess)
                if adopts, traits.crashes, dice.happens(perMille: 300) {
                    interruptAdoption(at: time, on: device, process, names)
                }
                add(.logIn(name, adoptsAnonymous: adopts), at: time, on: device, process: process)
                time += dice.pick(0...end / 4)
                if dice.happens(perMille: 400) {
                    add(.logOut, at: time, on: device)
                    if dice.happens(perMille: 500) { buy(on: device, at: time + dice.pick(0...end / 10)) }
                    time += dice.pick(0...end / 10)
                }
            }
        }
        guard traits.erases, let name = names.last else { return }
        let time = dice.pick(end / 3...end)
        add(.erase(name), at: time, on: anyDevice)
        if dice.happens(perMille: 500) {
            let again = time + dice.pick(0...World.day)
            add(.createAccount(name), at: again, on: anyDevice)
            if dice.happens(perMille: 500) { add(.createAccount(name), at: again + dice.pick(0...200), on: anyDevice) }
            for device in scenario.devices.indices where dice.happens(perMille: 600) {
                add(.logIn(name, adoptsAnonymous: false), at: time + dice.pick(0...5 * World.day), on: device)
            }
        }
    }

    /// There is something to adopt, the process ends while it does so, and somebody else comes next.
    private mutating func interruptAdoption(at time: Int64, on device: Int, _ process: Int, _ names: [String]) {
        let begin = max(0, time - dice.pick(1...5_000))
        buy(on: device, at: begin)
        add(.look, at: begin, on: device, process: process)
        add(.crash(afterOperations: Int(dice.pick(5...40))), at: max(0, time - 1), on: device, process: process)
        let next = names[Int(dice.pick(0...Int64(names.count - 1)))]
        add(.logIn(next, adoptsAnonymous: true), at: time + dice.pick(1...World.day), on: device, process: process)
    }
}
