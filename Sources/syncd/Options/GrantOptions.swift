import ArgumentParser
import Entitlements
import Logging
import SyncService

/// The signing of grants, and the purchases that open content.
struct GrantOptions: ParsableArguments {
    @Option(help: .setting("root-key")) var rootKey: String?
    @Option(help: .setting("grant-days")) var grantDays: String?
    @Option(help: .setting("content-environment")) var contentEnvironment: String?

    /// Adds the options to the configuration of a service.
    func apply(to configuration: inout ServiceConfiguration, secrets: SecretOptions, logger: Logger) throws {
        if let text = contentEnvironment {
            configuration.contentEnvironment = EnvironmentID(text)
            try reading("content-environment") { try configuration.contentEnvironment.validate() }
        }
        guard let path = rootKey else {
            guard grantDays == nil else { throw Failure.needs("grant-days", "root-key") }
            return
        }
        guard configuration.catalog != nil else {
            throw Failure(
                .usage, "--root-key needs --catalog: grants state the entitlements of the catalogue",
                of: ["root-key", "catalog"])
        }
        let days = try Setting.number(grantDays, of: "grant-days") ?? 7
        if configuration.policy != .verified {
            logger.warning("--root-key: without --policy verified the server signs what devices claim")
        }
        try secrets.check(path, of: "root-key")
        let key = try reading("root-key") { try RootKeyFile.read(path) }
        configuration.grants = GrantConfiguration(root: SigningKey(id: "root", key: key.key), days: Int(days))
    }
}
