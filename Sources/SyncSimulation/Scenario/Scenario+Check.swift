import Entitlements

extension Scenario {
    /// Checks that all values are in range. A document may contain any number, but runs add them up and must not
    /// overflow.
    func check() throws(InputError) {
        try Self.check(devices.count, in: 1...20, "devices", "the number")
        try Self.check(days, in: 1...36_500, "days")
        try Self.check(steps.count, in: 0...100_000, "steps", "the number")
        if remote.policy != nil, !remote.comparesAndSwaps {
            throw InputError(path: "remote.policy", reason: "needs a remote that compares and swaps")
        }
        if remote.policy == .verified, !sharesUnits {
            throw InputError(path: "remote.policy", reason: "verified needs shared units")
        }
        if let cluster = remote.cluster {
            guard remote.comparesAndSwaps else {
                throw InputError(path: "remote.cluster", reason: "needs a remote that compares and swaps")
            }
            try Self.check(cluster.slowCommits, in: 0...1_000, "remote.cluster.slowCommits")
            try Self.check(cluster.longestCommit, in: 1...60_000, "remote.cluster.longestCommit")
            try Self.check(cluster.longestLag, in: 0...60_000, "remote.cluster.longestLag")
        }
        for (index, setup) in devices.enumerated() { try Self.check(setup, "devices[\(index)]") }
        for field in FaultRates.fields {
            let limit = field.name == "longestDelay" ? 86_400_000 : 1_000
            try Self.check(faults[keyPath: field.path], in: 0...limit, "faults.\(field.name)")
        }
        for (index, step) in steps.enumerated() { try check(step, "steps[\(index)]") }
    }

    private static func check(_ setup: DeviceSetup, _ path: String) throws(InputError) {
        try check(setup.catalog, in: 0...100, "\(path).catalog")
        try check(setup.clockOffset, in: -longest...longest, "\(path).clockOffset")
        if let hours = setup.pollingHours { try check(hours, in: 1...87_600, "\(path).pollingHours") }
    }

    /// 400 years, in milliseconds.
    private static let longest: Int64 = 146_097 * 86_400_000

    private func check(_ step: Step, _ path: String) throws(InputError) {
        try Self.check(step.at, in: 0...Self.longest, "\(path).at")
        try Self.check(step.process, in: 0...1, "\(path).process")
        guard (step.device == nil) == step.action.isOnRemote else {
            let reason = step.action.isOnRemote ? "must be missing: the action is one of the remote" : "missing"
            throw InputError(path: "\(path).device", reason: reason)
        }
        if let device = step.device { try Self.check(device, in: 0...(devices.count - 1), "\(path).device") }
        switch step.action {
        case .buy(let sale):
            try Self.check(sale.quantity, in: 1...10_000, "\(path).action.buy.quantity")
            if let date = sale.date {
                try Self.check(date, in: -Self.longest...Self.longest, "\(path).action.buy.date")
            }
        case .failOver(let count, let promotion):
            try Self.check(count, in: 0...1_000_000, "\(path).action.failOver.afterWrites")
            try Self.check(promotion, in: 0...600_000, "\(path).action.failOver.promotion")
        case .switchOver(let promotion):
            try Self.check(promotion, in: 0...600_000, "\(path).action.switchOver.promotion")
        case .crash(let count): try Self.check(count, in: 0...1_000_000, "\(path).action.crash")
        default:
            for amount in step.action.amounts {
                try Self.check(amount, in: -Self.longest...Self.longest, "\(path).action")
            }
        }
    }

    private static func check<Number: BinaryInteger>(
        _ number: Number, in range: ClosedRange<Number>, _ path: String, _ what: String = ""
    ) throws(InputError) {
        guard !range.contains(number) else { return }
        let prefix = what.isEmpty ? "" : "\(what) "
        throw InputError(
            path: path, reason: "\(prefix)must be \(range.lowerBound) to \(range.upperBound), not \(number)")
    }
}

extension Action {
    /// True for actions on the remote.
    var isOnRemote: Bool {
        switch self {
        case .backUpRemote, .putBackRemote, .wipeRemote, .moveRemoteClock, .fillRemote, .failOver, .switchOver,
            .lie, .notify, .claim:
            true
        default: false
        }
    }

    /// The times and durations in the action, in milliseconds.
    var amounts: [Int64] {
        switch self {
        case .assert(_, let until, _): [until]
        case .fill(let amount), .moveClock(let amount), .cut(_, _, let amount), .fillRemote(let amount): [amount]
        case .moveRemoteClock(let amount, let duration): [amount, duration]
        case .lie(.garbage(let amount)), .lie(.laterFormat(let amount)): [amount]
        case .present(let statement, _), .forge(let statement), .notify(let statement),
            .claim(.evidence(let statement), _):
            [statement.date, statement.signedAt] + [statement.revokedAt, statement.expires].compactMap { $0 }
        default: []
        }
    }
}
