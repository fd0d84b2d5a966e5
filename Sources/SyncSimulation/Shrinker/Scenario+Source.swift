extension Scenario {
    /// The scenario as a Swift expression, for a file that imports `SyncSimulation`. Default values are left out.
    /// Lines after the first are indented for a function of a type.
    public var swiftSource: String { source(indentedBy: 8) }

    /// A regression test for a suite of Swift Testing.
    ///
    /// - Parameters:
    ///   - violation: The violation that the scenario shows, for the test's name.
    ///   - subject: Swift source of the subject, such as `Subject(rules: ConflictRules(expiry: LatestExpiryWins()))`;
    ///     `nil` for the default.
    public func regressionTest(for violation: Violation?, subject: String? = nil) -> String {
        let name = "seed \(seed)" + (violation.map { ": \($0)" } ?? "")
        let setup = subject.map { "\n        let subject = \($0)" } ?? ""
        let call = subject == nil ? "Simulation(scenario)" : "Simulation(scenario, of: subject)"
        return """
                @Test("\(Self.fitting(name))")
                func seed\(seed)() {
                    let scenario = \(swiftSource)\(setup)
                    #expect(\(call).run().violations.isEmpty)
                }

            """
    }

    /// The number of characters of a name that fit into a line of 120 characters.
    private static let nameLength = 104

    private static func fitting(_ name: String) -> String {
        let escaped = name.swiftEscaped
        guard escaped.count > nameLength else { return escaped }
        // The name is cut before escaping, so that no escape sequence is split.
        var length = name.count
        while length > 0, name.prefix(length).description.swiftEscaped.count >= nameLength { length -= 1 }
        return name.prefix(length).description.swiftEscaped + "…"
    }

    private func source(indentedBy indentation: Int) -> String {
        let inner = String(repeating: " ", count: indentation + 4)
        var arguments = ["seed: \(seed.source)"]
        arguments.append(
            "devices: " + Self.list(devices.map { SourceCall("DeviceSetup", $0.arguments) }, indentation + 4))
        if remote != RemoteSetup() { arguments.append("remote: " + SourceCall("RemoteSetup", remote.arguments).line) }
        if faults != FaultRates() {
            let call = SourceCall("FaultRates", faults.arguments)
            arguments.append("faults: " + call.text(indentedBy: indentation + 4, prefix: 8))
        }
        if !sharesUnits { arguments.append("sharesUnits: false") }
        if let rules { arguments.append("rules: \(rules.source)") }
        arguments.append("steps: " + Self.list(steps.map { SourceCall("Step", $0.arguments) }, indentation + 4))
        arguments.append("days: \(days.source)")
        return "Scenario(\n" + arguments.map { inner + $0 }.joined(separator: ",\n") + ")"
    }

    /// A list with one call on each line.
    private static func list(_ calls: [SourceCall], _ indentation: Int) -> String {
        guard !calls.isEmpty else { return "[]" }
        let inner = String(repeating: " ", count: indentation + 4)
        let lines = calls.map { inner + $0.text(indentedBy: indentation + 4, prefix: 0) }
        // The formatter requires a trailing comma in lists with several elements.
        let end = lines.count > 1 ? ",\n" : "\n"
        return "[\n" + lines.joined(separator: ",\n") + end + String(repeating: " ", count: indentation) + "]"
    }
}

/// A call of an initializer in Swift source.
private struct SourceCall {
    let name: String
    let arguments: [String]

    init(_ name: String, _ arguments: [String]) {
        self.name = name
        self.arguments = arguments
    }

    var line: String { name + "(" + arguments.joined(separator: ", ") + ")" }

    /// On one line if it fits, otherwise with each argument on a line of its own.
    func text(indentedBy indentation: Int, prefix: Int) -> String {
        if indentation + prefix + line.count < 120 { return line }
        let inner = String(repeating: " ", count: indentation + 4)
        let arguments = arguments.map { Self.wrapped($0, indentedBy: indentation + 4) }
        return name + "(\n" + arguments.map { inner + $0 }.joined(separator: ",\n") + ")"
    }

    /// Splits an argument that does not fit into a line: a call gets each of its arguments on a line of its own.
    private static func wrapped(_ argument: String, indentedBy indentation: Int) -> String {
        // Two closing parentheses and a comma may follow.
        guard indentation + argument.count > 117, argument.last == ")", let opening = argument.firstIndex(of: "("),
            !argument[..<opening].contains("\"")
        else { return argument }
        let name = String(argument[..<opening])
        let parts = arguments(in: argument[argument.index(after: opening)...].dropLast())
        return SourceCall(name, parts).text(indentedBy: indentation, prefix: 120)
    }

    /// The arguments of a call, without the parentheses around them.
    private static func arguments(in text: Substring) -> [String] {
        var parts = [""]
        var (depth, isQuoted, isEscaped) = (0, false, false)
        for character in text {
            if !isEscaped, character == "\"" { isQuoted.toggle() }
            isEscaped = isQuoted && !isEscaped && character == "\\"
            if !isQuoted, character == "(" { depth += 1 }
            if !isQuoted, character == ")" { depth -= 1 }
            if !isQuoted, depth == 0, character == "," {
                parts.append("")
            } else if !(character == " " && parts[parts.count - 1].isEmpty) {
                parts[parts.count - 1].append(character)
            }
        }
        return parts
    }
}

extension DeviceSetup {
    fileprivate var arguments: [String] {
        let usual = DeviceSetup()
        var arguments: [String] = []
        if let rule { arguments.append("rule: \(rule.source)") }
        if catalog != usual.catalog { arguments.append("catalog: \(catalog.source)") }
        if clockOffset != usual.clockOffset { arguments.append("clockOffset: \(clockOffset.source)") }
        if account != usual.account { arguments.append("account: \(account?.source ?? "nil")") }
        if let pollingHours { arguments.append("pollingHours: \(pollingHours.source)") }
        return arguments
    }
}

extension RemoteSetup {
    fileprivate var arguments: [String] {
        var arguments: [String] = []
        if !comparesAndSwaps { arguments.append("comparesAndSwaps: false") }
        if !tellsTime { arguments.append("tellsTime: false") }
        if let policy { arguments.append("policy: .\(policy.rawValue)") }
        return arguments
    }
}

extension FaultRates {
    fileprivate var arguments: [String] {
        Self.fields.filter { self[keyPath: $0.path] != FaultRates()[keyPath: $0.path] }.map {
            "\($0.name): \(self[keyPath: $0.path].source)"
        }
    }
}

extension Step {
    fileprivate var arguments: [String] {
        var arguments = ["at: \(at.source)"]
        if let device { arguments.append("device: \(device.source)") }
        if process != 0 { arguments.append("process: \(process.source)") }
        return arguments + [action.source]
    }
}
