import ArgumentParser
import Entitlements

#if Parse
import ParseFacade
#else
/// The configuration of the façade, which a build without the trait never makes.
struct ParseConfiguration: Sendable {}
#endif

/// The façade for apps that use a Parse SDK.
struct ParseOptions: ParsableArguments {
    @Option(name: .customLong("parse"), help: .setting("parse")) var applicationID: String?
    @Option(name: .customLong("parse-path"), help: .setting("parse-path")) var path: String?
    @Option(name: .customLong("parse-field"), help: .setting("parse-field")) var fields: [String] = []
    @Option(name: .customLong("parse-classes"), help: .setting("parse-classes")) var classes: [String] = []

    /// The configuration of the façade; `nil` if there is none.
    func configuration(catalog: Catalog?) throws(Failure) -> ParseConfiguration? {
        guard let applicationID else {
            guard path != nil || !fields.isEmpty || !classes.isEmpty else { return nil }
            throw Failure(
                .usage, "--parse-path, --parse-field and --parse-classes need --parse APPID",
                of: ["parse-path", "parse-field", "parse-classes", "parse"])
        }
        #if Parse
        var configuration = try reading("parse") { try ParseConfiguration(applicationID: applicationID) }
        if let path {
            configuration = try reading("parse-path") {
                try ParseConfiguration(applicationID: applicationID, path: path)
            }
        }
        try reading("parse-field", each: fields) { field in
            do { try configuration.addField(field, catalog: catalog) } catch {
                throw Failure(.usage, "--parse-field: \(error)", of: ["parse-field", "catalog"])
            }
        }
        try reading("parse-classes", each: classes) { text in
            for name in text.split(separator: ",") { try configuration.addClass(String(name)) }
        }
        return configuration
        #else
        throw Self.isMissing("--parse \(applicationID.singleLine)")
        #endif
    }

    /// The refusal of `option`, which needs the trait.
    static func isMissing(_ option: String) -> Failure {
        Failure(
            .usage, "\(option): this syncd was built without the Parse trait; build with --traits Parse,TLS",
            of: ["parse"])
    }
}
