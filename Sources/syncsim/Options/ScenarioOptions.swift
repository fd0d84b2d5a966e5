import ArgumentParser
import Entitlements
import SyncSimulation

/// The options for the rules under test.
struct SubjectOptions: ParsableArguments {
    @Option(help: "The expiry rule of the devices: stackPurchases, latestExpiryWins or remoteWins.")
    var rules: String?

    func subject() throws(Failure) -> Subject {
        guard let rule = try rule() else { return Subject() }
        return Subject(rules: ConflictRules(expiry: rule))
    }

    /// The name of the expiry rule in use.
    var name: String { rules ?? Self.defaultName }

    static var defaultName: String { ConflictRules().expiry.name }

    /// The rule that `--rules` names; `nil` without the option.
    func rule() throws(Failure) -> (any ExpiryRule)? {
        guard let rules else { return nil }
        let known = ConflictRules.expiryRules
        guard let rule = known.first(where: { $0.name == rules }) else {
            let names = known.map(\.name).joined(separator: ", ")
            throw Failure(.usage, "--rules must be one of \(names), not \"\(rules.singleLine)\"")
        }
        return rule
    }
}

/// The options for generating scenarios.
struct SwarmOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The number of devices, 1 to 20; by default a random one from 1 to 5.", valueName: "number"))
    var replicas: Int?

    @Option(
        help: ArgumentHelp(
            "The number of days, 1 to 36500; by default a random one from 10 to 500.", valueName: "number"))
    var days: Int?

    func swarm() throws(Failure) -> Swarm {
        if let replicas { try check("--replicas", replicas, in: 1...20) }
        if let days { try check("--days", days, in: 1...36_500) }
        return Swarm(replicas: replicas, days: days)
    }

    var isGiven: Bool { replicas != nil || days != nil }
}

/// The options for one scenario: a seed or a file.
struct ScenarioOptions: ParsableArguments {
    @Argument(help: "The seed.")
    var seed: String?

    @Option(
        help: ArgumentHelp(
            "Use the scenario in this file, as written by shrink, instead of a seed's.", valueName: "file"))
    var scenario: String?

    @Flag(help: "Simulate the servers of accounts instead of devices.")
    var service = false

    @OptionGroup var swarm: SwarmOptions
    @OptionGroup var subject: SubjectOptions

    /// The scenario, with the rule of `--rules` in the place of one from the file.
    func load() throws -> Scenario {
        let rule = try subject.rule()
        var scenario = try loadScenario()
        if let rule { scenario.rules = rule.name }
        return scenario
    }

    private func loadScenario() throws -> Scenario {
        switch try source() {
        case .seed(let seed): return try swarm.swarm().scenario(seed: seed)
        case .file(let path):
            guard !swarm.isGiven else {
                throw Failure(.usage, "--replicas and --days need a seed; a scenario file has both")
            }
            return try Self.read(path)
        }
    }

    /// The origin of a scenario.
    enum Source {
        case seed(UInt64)
        case file(String)
    }

    func source() throws(Failure) -> Source {
        switch (seed, scenario) {
        case (nil, nil): throw Failure(.usage, "pass a seed, or --scenario with a file")
        case (.some, .some): throw Failure(.usage, "a seed and --scenario cannot be combined")
        case (let seed?, nil): return .seed(try seedNumber(seed, "the seed must be a number"))
        case (nil, let path?): return .file(path)
        }
    }

    private static func read(_ path: String) throws(Failure) -> Scenario {
        let bytes = try readFile(path)
        do throws(InputError) {
            let scenario = try Scenario(json: bytes)
            try check(rule: scenario.rules, at: "rules")
            for (index, device) in scenario.devices.enumerated() {
                try check(rule: device.rule, at: "devices[\(index)].rule")
            }
            return scenario
        } catch {
            throw Failure(.failed, "\(path): \(error)")
        }
    }

    private static func check(rule: String?, at path: String) throws(InputError) {
        let known = ConflictRules.expiryRules.map(\.name)
        guard let rule, !known.contains(rule) else { return }
        throw InputError(
            path: path, reason: "must be one of \(known.joined(separator: ", ")), not \"\(rule.singleLine)\"")
    }

    /// A one-line description of the run.
    func title(of scenario: Scenario) -> String {
        "seed \(scenario.seed), \(plural(scenario.devices.count, "device")), \(plural(scenario.days, "day")), "
            + "\(plural(scenario.steps.count, "step")), \(scenario.rules ?? SubjectOptions.defaultName)"
    }
}
