import ArgumentParser
import Entitlements
import Foundation

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Check an installation, and print a remedy for everything that is wrong.",
        usage: "syncd doctor [run | serve] [--json] [--config <file>] [<options of the command>]",
        discussion: """
            Without a command it checks what is configured: a device if there is a --local, a server if there is a \
            --store. It reads only, also beside a running syncd, and needs the options, the variables and the file \
            that the command needs. Run it as the user who runs the command. Root checks "serve" for the user of the \
            unit syncd.service, with its options, variables and credentials; with --store, with another --config or \
            without the unit, for the owner of the store.

            Each line has a result (ok, warning, failed, skipped), the name of the check, the finding, and the remedy. \
            Each request to a server has a limit of 5 seconds.

            Exit codes: 0 nothing has failed, 1 a check has failed.

            Examples:
              syncd doctor
              syncd doctor run --local sqlite:owls.sqlite --remote https://purchases.example.com
              sudo syncd doctor serve --json
            """)

    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    @Option(help: .setting("ca-file", of: .run)) var caFile: String?

    @Argument(
        parsing: .allUnrecognized,
        help: ArgumentHelp("\(Setting.Command.names), and its options.", valueName: "command"))
    var words: [String] = []

    func run() async throws {
        let unit = try installedUnit()
        unit?.adoptEnvironment()
        let file = ConfigurationFile.find(options.config, for: unit)
        var examinations: [Examination] = []
        for (command, flags) in try commands(file, unit) {
            examinations.append(await examine(command, flags, file, unit))
        }
        let findings = examinations.flatMap(\.findings)
        let failures = findings.count { $0.verdict.result == .failed }
        try output.show(Self.json(findings, isHealthy: failures == 0), or: Self.text(findings, examinations.count))
        if failures > 0 { throw ExitCode(.failed) }
    }

    /// The unit of the server, unless this command names a store or a file, which may be those of another server.
    private func installedUnit() throws -> ServiceUnit? {
        guard words.first != Setting.Command.run.rawValue, environmentVariable("SYNCD_STORE") == nil,
            !words.contains(where: { $0 == "--store" || $0.hasPrefix("--store=") })
        else { return nil }
        let unit = ServiceUnit.installed()
        return options.config == nil || options.config == unit?.configurationPath ? unit : nil
    }

    /// The commands to examine with their flags: the one that is named, or those that are configured.
    private func commands(
        _ file: ConfigurationFile?, _ unit: ServiceUnit?
    ) throws -> [(Setting.Command, flags: [String])] {
        if let command = words.first.flatMap(Setting.Command.init) {
            let flags = Array(words.dropFirst())
            _ = try command.type.parse(flags)
            return [(command, flags)]
        }
        let configured = Setting.Command.allCases.filter { command in
            guard (try? command.type.parse(words)) != nil else { return false }
            func hasStore<Options: ConfiguredCommand>(_ type: Options.Type) -> Bool {
                guard let settings: EffectiveSettings<Options> = try? settings(words, file, unit) else { return true }
                return settings.options[command == .serve ? "store" : "local"] != nil
            }
            return hasStore(command.type) || words.isEmpty && file?.commands.contains(command) == true
        }
        if !configured.isEmpty { return configured.map { ($0, words) } }
        // A file that cannot be read at all names no command.
        if words.isEmpty, file?.mistakes.isEmpty == false { return [(unit == nil ? .run : .serve, [])] }
        _ = try Setting.Command.run.type.parse(words)
        throw Failure(
            .usage, "nothing is configured: pass run --local STORE or serve --store STORE, or a configuration file")
    }

    private func settings<Options>(
        _ flags: [String], _ file: ConfigurationFile?, _ unit: ServiceUnit?
    ) throws -> EffectiveSettings<Options> {
        let trust = Options.section == .run ? caFile.map { ["--ca-file", $0] } ?? [] : []
        return try EffectiveSettings(parsing: flags + trust, file: file, for: unit)
    }

    private func examine(
        _ command: Setting.Command, _ flags: [String], _ file: ConfigurationFile?, _ unit: ServiceUnit?
    ) async -> Examination {
        do {
            return switch command {
            case .run: await DeviceCheckup(ConfigurationReview(try settings(flags, file, unit))).examine()
            case .serve:
                await ServerCheckup(
                    ConfigurationReview(try settings(flags, file, unit)), unit: unit, caFile: caFile
                ).examine()
            }
        } catch {
            var examination = Examination(command)
            await examination.check(.configuration) { throw error }
            return examination
        }
    }

    private static func text(_ findings: [Examination.Finding], _ commandCount: Int) -> String {
        let rows = findings.map { finding in
            let verdict = finding.verdict
            let text = verdict.finding + (verdict.remedy.map { "; remedy: \($0)" } ?? "")
            let command = commandCount > 1 ? [finding.command.rawValue] : []
            return [verdict.result.rawValue] + command + [finding.check.rawValue, text]
        }
        let lines = aligned(rows).map { String($0.dropFirst(2)) }
        let counts = Verdict.Result.allCases.compactMap { result -> String? in
            let count = findings.count { $0.verdict.result == result }
            return count == 0 ? nil : "\(count) \(result.rawValue)"
        }
        return (lines + [counts.joined(separator: ", ")]).joined(separator: "\n")
    }

    private static func json(_ findings: [Examination.Finding], isHealthy: Bool) -> JSON {
        [
            "healthy": .bool(isHealthy), "version": .string(Version.number),
            "checks": .array(
                findings.map { finding in
                    [
                        "command": .string(finding.command.rawValue), "check": .string(finding.check.rawValue),
                        "result": .string(finding.verdict.result.rawValue),
                        "finding": .string(finding.verdict.finding), "remedy": JSON(finding.verdict.remedy),
                    ]
                }),
        ]
    }
}
