import Entitlements
import Foundation

/// The configuration of a command, and its mistakes by the check that reports them.
///
/// The mistakes are those for which the command would not start.
struct ConfigurationReview<Options: ConfiguredCommand> {
    /// The settings without the values that have a mistake.
    let usable: EffectiveSettings<Options>
    /// The user of the server for whom root checks; `nil` if this process checks for its own user.
    let user: ServiceUser?
    private let file: ConfigurationFile?
    private var texts: [CheckName: [String]] = [:]

    /// Reviews the values of the flags, the environment and the file.
    init(_ settings: EffectiveSettings<Options>) {
        (file, user) = (settings.file, settings.serviceUser)
        let review = settings.review()
        usable = review.usable
        for mistake in file?.mistakes ?? [] {
            let isOwn = mistake.key?.first == Options.section.rawValue
            add(file?.describe(mistake) ?? mistake.reason, of: isOwn ? mistake.key?.last : nil)
        }
        for mistake in review.mistakes { add(mistake.text, of: mistake.name) }
    }

    private mutating func add(_ text: String, of setting: String?) {
        texts[setting.map(Self.check) ?? .configuration, default: []].append(text)
    }

    /// The check that reports the mistakes of a setting.
    private static func check(of setting: String) -> CheckName {
        switch setting {
        case "catalog", "duration", "expiry", "flags", "group-of", "units": .catalog
        case "operator-token-file", "play-service-account", "root-key", "stripe-secret-file", "token-file",
            "webhooks":
            .secrets
        case "credentials": .credentials
        case "group-may-act", "socket", "socket-group": .socket
        case "tls-certificate", "tls-key": .certificate
        case "listen": .listen
        default: .configuration
        }
    }

    /// The verdict on the mistakes that `check` reports; `nil` if there are none.
    func mistakes(_ check: CheckName) -> Verdict? {
        guard let texts = texts[check], let first = texts.first else { return nil }
        let rest = texts.count > 1 ? " (and \(plural(texts.count - 1, "other mistake")))" : ""
        if geteuid() != 0, first.hasSuffix("permission denied") {
            return .failed(first + rest, remedy: Options.section.remedyForUser)
        }
        let remedy = file.map { "correct it; syncd config check --config \($0.path) lists all mistakes" }
        return .failed(
            first + rest, remedy: remedy ?? "correct it; syncd help \(Options.section.rawValue) lists the options")
    }

    /// The verdict on the configuration apart from what other checks report.
    var verdict: Verdict {
        if let verdict = mistakes(.configuration) { return verdict }
        let finding = file.map { "\($0.path): no mistakes" } ?? "no configuration file; options and variables are valid"
        guard let user else { return .ok(finding) }
        return .ok("\(finding), checked for \(user.description)")
    }

    /// The verdict on the catalogue.
    func catalog(_ options: CatalogOptions?) throws -> Verdict {
        if let verdict = mistakes(.catalog) { return verdict }
        guard let options, let path = options.file ?? environmentVariable("SYNCD_CATALOG") else {
            return .skipped("no catalogue is configured")
        }
        let catalog = try options.load()
        let products = plural(catalog.products.count, "product")
        return .ok("\(path): \(products), \(plural(catalog.entitlements.count, "entitlement"))")
    }

    /// The verdict on the files with secrets.
    var secrets: Verdict {
        if let verdict = mistakes(.secrets) { return verdict }
        let paths = Setting.all(of: Options.section).compactMap { setting -> String? in
            guard case .secretPath = setting.kind else { return nil }
            return usable.options[setting.name]?.first
        }
        guard !paths.isEmpty else {
            let missing = usable.unavailable.joined(separator: ", ")
            return .skipped(
                missing.isEmpty
                    ? "no file with a secret is configured" : "\(missing): only the running unit has the credential")
        }
        for path in paths {
            guard let reason = obstacle(to: path, R_OK) else { continue }
            return .failed("\(path): \(reason)", remedy: "let the user who runs syncd read it, or correct the path")
        }
        for path in paths {
            var status = stat()
            guard stat(path, &status) == 0, status.st_mode & 0o007 != 0 else { continue }
            return .warning(
                "\(path): every user may access it, which allow-open-secrets permits",
                remedy: "chmod o-rwx \(quoted(path)), and remove allow-open-secrets")
        }
        return .ok("\(plural(paths.count, "file")), not accessible to all users")
    }
}

extension Setting.Command {
    /// The remedy for a user who may not read the files of the command.
    var remedyForUser: String { "run it as the user who runs syncd, or: sudo syncd doctor \(rawValue)" }
}
