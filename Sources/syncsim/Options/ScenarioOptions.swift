import ArgumentParser
import Entitlements
import SyncSimulation

/// What is put to the test.
struct SubjectOptions: ParsableArguments {
    @Option(help: "Let devices read purchases by this expiry rule: stackPurchases, latestExpiryWins or remoteWins.")
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

/// How scenarios are drawn.
struct SwarmOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Take so many devices, 1 to 20, instead of drawing 1 to 5.", valueName: "number"))
    var replicas: Int?

    @Option(
        help: ArgumentHelp("Go on for so many days, 1 to 36500, instead of drawing 10 to 500.", valueName: "number"))
    var days: Int?

    func swarm() throws(Failure) -> Swarm {
        if let replicas, !(1...20).contains(replicas) {
            throw Failure(.usage, "--replicas: \(replicas) is not between 1 and 20")
        }
        if let days, !(1...36_500).contains(days) {
            throw Failure(.usage, "--days: \(days) is not between 1 and 36500")
        }
        return Swarm(replicas: replicas, days: days)
    }

    var isGiven: Bool { replicas != nil || days != nil }
}

/// One scenario: that of a seed, or one from a file.
struct ScenarioOptions: ParsableArguments {
    @Argument(help: "The seed.")
    var seed: String?

    @Option(
        help: ArgumentHelp("Take the scenario that shrink wrote to this file, instead of a seed's.", valueName: "file"))
    var scenario: String?

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
        switch (seed, scenario) {
        case (nil, nil): throw Failure(.usage, "a seed is missing, or --scenario with a file")
        case (.some, .some): throw Failure(.usage, "a seed and --scenario exclude each other")
        case (let seed?, nil):
            guard let number = UInt64(digits: seed) else {
                throw Failure(.usage, "\"\(seed.singleLine)\" is no seed: a number from 0 to \(UInt64.max)")
            }
            return try swarm.swarm().scenario(seed: number)
        case (nil, let path?):
            guard !swarm.isGiven else {
                throw Failure(.usage, "--replicas and --days go with a seed; the file says both")
            }
            return try Self.read(path)
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
