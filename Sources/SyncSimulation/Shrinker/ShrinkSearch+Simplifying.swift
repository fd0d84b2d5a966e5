extension ShrinkSearch<Scenario, Violation> {
    /// Simplifies the parameters besides the steps: all at once if that works, otherwise one by one.
    func simplifySurroundings() {
        tries { $0.faults = FaultRates() }
        for field in FaultRates.fields {
            tries { $0.faults[keyPath: field.path] = FaultRates()[keyPath: field.path] }
        }
        tries { $0.remote = RemoteSetup() }
        tries { $0.remote.comparesAndSwaps = true }
        tries { $0.remote.tellsTime = true }
        if best.remote.policy != nil { tries { $0.remote.policy = nil } }
        if best.remote.policy == .verified { tries { $0.remote.policy = .trusted } }
        if best.remote.cluster != nil { tries { $0.remote.cluster = nil } }
        if best.remote.cluster != nil {
            tries { $0.remote.cluster = ClusterSetup() }
            tries { $0.remote.cluster?.slowCommits = ClusterSetup().slowCommits }
            tries { $0.remote.cluster?.longestCommit = ClusterSetup().longestCommit }
            tries { $0.remote.cluster?.longestLag = ClusterSetup().longestLag }
        }
        tries { $0.sharesUnits = true }
        for index in best.devices.indices {
            tries { $0.devices[index] = DeviceSetup(account: $0.devices[index].account) }
            tries { $0.devices[index].rule = nil }
            tries { $0.devices[index].catalog = 0 }
            tries { $0.devices[index].clockOffset = 0 }
            tries { $0.devices[index].pollingHours = nil }
        }
        // A device that is opened for an account needs no log-in step.
        tries { scenario in
            for index in scenario.devices.indices { scenario.devices[index].account = DeviceSetup().account }
        }
        shorten()
    }

    private func shorten() {
        let lastDay = Int((best.steps.map(\.at).max() ?? 0) / World.day) + 1
        if lastDay < best.days { tries { $0.days = lastDay } }
        while best.days > 1, tries({ $0.days = max(1, $0.days / 2) }) {}
        if best.days > 1 { tries { $0.days -= 1 } }
    }

    /// Simplifies what the store states. All statements about a transaction change alike, because a store does not
    /// contradict itself.
    private func simplifyStatements() {
        for id in best.statedTransactions.sorted() {
            tries { $0.changeStatements(about: id) { $0.account = nil } }
            tries { $0.changeStatements(about: id) { $0.original = nil } }
            tries { $0.changeStatements(about: id) { $0.expires = nil } }
            for unit in roundUnits where tries({ $0.changeStatements(about: id) { $0.date -= $0.date % unit } }) {
                break
            }
        }
    }

    /// Simplifies each step, and the times of all.
    func simplifySteps() {
        simplifyStatements()
        let isSpread = spread()
        for index in best.steps.indices {
            if best.steps[index].process != 0 { tries { $0.steps[index].process = 0 } }
            for action in best.steps[index].action.simpler { tries { $0.steps[index].action = action } }
            if !isSpread { round(index) }
        }
    }

    /// Places the steps at equal intervals, which shows that only their order matters.
    ///
    /// - Returns: `true` if the scenario still fails.
    private func spread() -> Bool {
        for distance in [World.day, World.hour, 1_000] {
            let isDone = tries { scenario in
                for index in scenario.steps.indices { scenario.steps[index].at = Int64(index) * distance }
            }
            if isDone { return true }
        }
        for unit in roundUnits {
            let isDone = tries { scenario in
                for index in scenario.steps.indices { scenario.steps[index].at -= scenario.steps[index].at % unit }
            }
            if isDone { break }
        }
        return false
    }

    private func round(_ index: Int) {
        let time = best.steps[index].at
        for unit in roundUnits where time % unit != 0 {
            // Keeps the steps in ascending order.
            let rounded = time - time % unit
            guard index == 0 || rounded >= best.steps[index - 1].at else { continue }
            if tries({ $0.steps[index].at = rounded }) { return }
        }
    }
}

extension Scenario {
    fileprivate mutating func changeStatements(about id: String, _ change: (inout StoreStatement) -> Void) {
        for index in steps.indices {
            guard var statement = steps[index].action.statement, statement.transaction == id else { continue }
            change(&statement)
            steps[index].action.statement = statement
        }
    }
}

extension Action {
    /// Simpler variants of the action, the simplest first.
    fileprivate var simpler: [Action] {
        let candidates: [Action] =
            switch self {
            case .buy(let sale): sale.simpler.map { .buy($0) }
            case .refund(let id, _): [.refund(id, isSigned: false)]
            case .reinstate(let id, _): [.reinstate(id, isSigned: false)]
            case .logIn(let name, _): [.logIn(name, adoptsAnonymous: false)]
            case .assert(let group, let until, let source):
                until.rounder.map { .assert(group: group, until: $0, source: source) }
            case .crash(let count): [0, 1, count / 2].filter { $0 < count }.map { .crash(afterOperations: $0) }
            case .failOver(let count, let promotion):
                [0, 1, count / 2].filter { $0 < count }.map { .failOver(afterWrites: $0, promotion: promotion) }
                    + [0, 1_000].filter { $0 < promotion }.map { .failOver(afterWrites: count, promotion: $0) }
            case .switchOver(let promotion):
                [0, 1_000].filter { $0 < promotion }.map { .switchOver(promotion: $0) }
            case .fill(let amount): amount.rounder.map { .fill($0) }
            case .fillRemote(let amount): amount.rounder.map { .fillRemote($0) }
            case .moveClock(let amount): amount.rounder.map { .moveClock($0) }
            case .moveRemoteClock(let amount, let duration):
                amount.rounder.map { .moveRemoteClock($0, for: duration) }
                    + duration.rounder.map { .moveRemoteClock(amount, for: $0) }
            case .cut(true, true, let amount):
                [.cut(requests: true, answers: false, amount), .cut(requests: false, answers: true, amount)]
            case .present(let statement, true): [.present(statement, isRestore: false)]
            case .lie(.garbage(let amount)): amount.rounder.map { .lie(.garbage($0)) }
            case .lie(.laterFormat(let amount)): amount.rounder.map { .lie(.laterFormat($0)) }
            default: []
            }
        return candidates.filter { $0 != self }
    }
}

extension Sale {
    /// Variants that differ in one property, since the shrinker applies one change after another.
    fileprivate var simpler: [Sale] {
        var candidates = [Sale(transaction, of: product)]
        candidates.append(changed { $0.quantity = 1 })
        candidates.append(changed { $0.isSigned = false })
        candidates.append(changed { $0.date = nil })
        if let date { candidates += date.rounder.map { date in changed { $0.date = date } } }
        return candidates
    }

    private func changed(_ change: (inout Sale) -> Void) -> Sale {
        var sale = self
        change(&sale)
        return sale
    }
}

/// Days, hours, minutes and seconds, in milliseconds.
private let roundUnits = [World.day, World.hour, 60_000, 1_000]

extension Int64 {
    /// The number rounded down to days, hours, minutes and seconds, without zero and the number itself.
    fileprivate var rounder: [Int64] {
        roundUnits.map { self - self % $0 }.filter { $0 != 0 && $0 != self }
    }
}
