import ArgumentParser
import Entitlements
import ParseFacade

/// The façade for apps that use a Parse SDK.
struct ParseOptions: ParsableArguments {
    @Option(name: .customLong("parse"), help: .setting("parse"))
    var applicationID: String?

    @Option(name: .customLong("parse-path"), help: .setting("parse-path"))
    var path: String?

    @Option(name: .customLong("parse-field"), help: .setting("parse-field"))
    var fields: [String] = []

    @Option(name: .customLong("parse-classes"), help: .setting("parse-classes"))
    var classes: [String] = []

    /// The configuration of the façade; `nil` if there is none.
    func configuration(catalog: Catalog?) throws(Failure) -> ParseConfiguration? {
        guard let applicationID else {
            guard path == nil, fields.isEmpty, classes.isEmpty else {
                throw Failure(.usage, "--parse-path, --parse-field and --parse-classes need --parse APPID")
            }
            return nil
        }
        var configuration: ParseConfiguration
        do throws(ParseConfiguration.ValueError) {
            configuration = try ParseConfiguration(applicationID: applicationID)
        } catch {
            throw Failure(.usage, "--parse: \(error)")
        }
        if let path {
            do throws(ParseConfiguration.ValueError) {
                configuration = try ParseConfiguration(applicationID: applicationID, path: path)
            } catch {
                throw Failure(.usage, "--parse-path: \(error)")
            }
        }
        do throws(ParseConfiguration.ValueError) {
            for field in fields { try configuration.addField(field, catalog: catalog) }
        } catch {
            throw Failure(.usage, "--parse-field: \(error)")
        }
        do throws(ParseConfiguration.ValueError) {
            for name in classes.flatMap({ $0.split(separator: ",") }) { try configuration.addClass(String(name)) }
        } catch {
            throw Failure(.usage, "--parse-classes: \(error)")
        }
        return configuration
    }
}
