import HTTPTypes
import SyncAgent
import SyncServer
import SyncService
import Testing

@Suite("The paths of the socket")
struct RouteTests {
    /// The paths that the server has as well, with other tags.
    private static let shared: Set = ["/v1/entitlements", "/v1/transactions", "/v1/sessions", "/v1/events"]

    @Test("The OpenAPI document describes each path and method, those of the socket alone with the tag Device")
    func document() throws {
        let lines = String(decoding: OpenAPIDocument.yaml, as: UTF8.self).split(separator: "\n").map(String.init)
        let routes = AgentService.routes.resources
        for route in routes {
            let start = try #require(lines.firstIndex(of: "  \(route.path):"), "\(route.path)")
            let operations = lines[(start + 1)...].prefix { $0.hasPrefix("    ") }
            for method in route.methods {
                let operation = try #require(operations.firstIndex(of: "    \(method.rawValue.lowercased()):"))
                let isOfDevice = operations[operation + 1] == "      tags: [Device]"
                #expect(isOfDevice != Self.shared.contains(route.path), "\(method) \(route.path)")
            }
        }
        let count = lines.count { $0 == "      tags: [Device]" }
        #expect(count == routes.count - Self.shared.count)
    }
}
