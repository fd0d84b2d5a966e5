import HTTPTypes
import SyncServer
import SyncService
import Testing

@Suite("The OpenAPI document")
struct DescriptionTests {
    /// The statuses of each method of each path of the server. The document is plain YAML, indented by two spaces a
    /// level.
    private static func described() -> [String: [String: Set<Int>]] {
        var paths: [String: [String: Set<Int>]] = [:]
        var (isWithinPaths, path, method) = (false, "", "")
        var devicePaths: Set<String> = []
        for line in String(decoding: OpenAPIDocument.yaml, as: UTF8.self).split(separator: "\n") {
            let depth = line.prefix { $0 == " " }.count
            let text = line.dropFirst(depth)
            let name = text.hasSuffix(":") ? String(text.dropLast()) : ""
            switch depth {
            case 0: isWithinPaths = text == "paths:"
            case 2 where isWithinPaths:
                path = name
                paths[path] = [:]
            case 4 where isWithinPaths && name != "parameters" && !name.isEmpty:
                method = name.uppercased()
                paths[path]?[method] = []
            case 6 where isWithinPaths && text == "tags: [Device]": devicePaths.insert(path)
            case 8 where isWithinPaths && name.hasPrefix("\""):
                if let status = Int(name.dropFirst().dropLast()) { paths[path]?[method]?.insert(status) }
            default: break
            }
        }
        return paths.filter { !devicePaths.contains($0.key) }
    }

    @Test("The document has exactly the routes and methods of the server")
    func routes() {
        let rows =
            EntitlementService.routes.resources.map { ($0.path, $0.methods) }
            + Responder.routes.resources.map { ($0.path, $0.methods) }
        var expected: [String: Set<String>] = [:]
        for (path, methods) in rows { expected[path] = Set(methods.map(\.rawValue)) }
        let described = Self.described().mapValues { Set($0.keys) }
        #expect(described.keys.sorted() == expected.keys.sorted())
        for path in expected.keys.sorted() { #expect(described[path] == expected[path], "\(path)") }
    }

    @Test("Every operation documents the statuses that any request may get: 408, 413, 415, 429, 431, 500, 503")
    func statuses() {
        for (path, methods) in Self.described().sorted(by: { $0.key < $1.key }) {
            for (method, statuses) in methods.sorted(by: { $0.key < $1.key }) {
                #expect(statuses.isSuperset(of: [408, 413, 415, 431, 500]), "\(method) \(path)")
                // Operational endpoints are exempt from the rate limits and from overload refusals.
                let isOperational = Responder.routes.resource(at: path) != nil
                #expect(statuses.contains(429) != isOperational, "\(method) \(path)")
                #expect(
                    statuses.contains(503) != isOperational || path == "/readyz",
                    "\(method) \(path)")
                #expect(statuses.contains { (200..<300).contains($0) }, "\(method) \(path)")
            }
        }
    }
}
