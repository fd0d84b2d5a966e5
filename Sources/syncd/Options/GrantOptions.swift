import ArgumentParser
import Entitlements
import Logging
import SyncService

/// The signing of grants, and the purchases that open content.
struct GrantOptions: ParsableArguments {
    @Option(help: .setting("root-key"))
    var rootKey: String?

    @Option(help: .setting("grant-days"))
    var grantDays: String?

    @Option(help: .setting("content-environment"))
    var contentEnvironment: String?

    /// Adds the options to the configuration of a service.
    func apply(to configuration: inout ServiceConfiguration, secrets: SecretOptions, logger: Logger) throws {
        if let text = contentEnvironment {
            let environment = EnvironmentID(text)
            do throws(IdentifierError) { try environment.validate() } catch {
                throw Failure(.usage, "--content-environment: \(error)")
            }
            configuration.contentEnvironment = environment
        }
        guard let path = rootKey else {
            guard grantDays == nil else { throw Failure(.usage, "--grant-days needs --root-key") }
            return
        }
        guard configuration.catalog != nil else {
            throw Failure(.usage, "--root-key needs --catalog: grants state the entitlements of the catalogue")
        }
        var days = 7
        if let text = grantDays {
            guard let number = Int(text), GrantConfiguration.days.contains(number) else {
                throw Failure(.usage, "--grant-days must be a number from 1 to 30, not \"\(text.singleLine)\"")
            }
            days = number
        }
        if configuration.policy != .verified {
            logger.warning("--root-key: without --policy verified the server signs what devices claim")
        }
        try secrets.check(path, option: "--root-key")
        let key = try RootKeyFile.read(path)
        configuration.grants = GrantConfiguration(root: SigningKey(id: "root", bytes: key.bytes), days: days)
    }
}
