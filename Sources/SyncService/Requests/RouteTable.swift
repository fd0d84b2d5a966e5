package import HTTPTypes
import SyncProtocol

/// One method of one path, with its handler. The handler also states who may use the route.
package struct Route<Handler: Sendable>: Sendable {
    /// The method. `GET` stands for `HEAD`, too.
    package let method: HTTPRequest.Method
    /// The path as the OpenAPI document writes it: `/v1/accounts/{name}/erasure`. The last part may be `{name...}`,
    /// which stands for the rest of the path with all its slashes.
    package let path: String
    /// The handler.
    package let handler: Handler

    /// A route.
    package init(_ method: HTTPRequest.Method, _ path: String, _ handler: Handler) {
        (self.method, self.path, self.handler) = (method, path, handler)
    }
}

/// The routes of a wire, in order. A request goes to the first path that matches.
///
/// The most frequent paths come first, because their requests are then matched with a single comparison, and without
/// an allocation.
package struct RouteTable<Handler: Sendable>: Sendable {
    /// The routes of one path.
    package final class Resource: Sendable {
        /// The path as the OpenAPI document writes it. It names the route in metrics and logs.
        package let path: String
        fileprivate let routes: [Route<Handler>]
        /// The path before its first parameter.
        private let prefix: String
        /// The parts from the first parameter on; empty for a path without parameters.
        private let parts: [Substring]
        private let takesRest: Bool
        /// The names of the parameters, in their order.
        package let parameterNames: [String]

        fileprivate init(_ path: String, _ routes: [Route<Handler>]) {
            takesRest = path.hasSuffix("...}")
            self.path = path.replacing("...}", with: "}")
            self.routes = routes
            prefix = String(path.prefix { $0 != "{" })
            parts = path.dropFirst(prefix.count).split(separator: "/")
            parameterNames = parts.filter { $0.first == "{" }.map { part in
                part.filter { !"{.}".contains($0) }
            }
        }

        /// The accepted methods, in the order of the table.
        package var methods: [HTTPRequest.Method] { routes.map(\.method) }

        /// The handler of a method; `nil` if the path does not accept it.
        package func handler(of method: HTTPRequest.Method) -> Handler? {
            routes.first { $0.method == method }?.handler
        }

        fileprivate func matches(_ path: String) -> Bool {
            if parts.isEmpty { return path == prefix }
            guard path.utf8.starts(with: prefix.utf8) else { return false }
            if takesRest { return true }
            let rest = rest(of: path)
            return rest.count == parts.count && zip(rest, parts).allSatisfy { $1.first == "{" || $0 == $1 }
        }

        private func rest(of path: String) -> [Substring] {
            path.utf8.dropFirst(prefix.utf8.count)
                .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Substring($0) }
        }

        /// The parameters in a path that matches, as they are written. See ``RequestPath/decoded(_:)``.
        package func parameters(in path: String) -> [Substring] {
            if takesRest { return [Substring(path.utf8.dropFirst(prefix.utf8.count))] }
            return zip(rest(of: path), parts).filter { $1.first == "{" }.map(\.0)
        }
    }

    /// The paths, in order.
    package let resources: [Resource]

    /// The table of `routes`.
    package init(_ routes: [Route<Handler>]) {
        var paths: [String] = []
        for route in routes where !paths.contains(route.path) { paths.append(route.path) }
        resources = paths.map { path in Resource(path, routes.filter { $0.path == path }) }
    }

    /// The resource at a path without query; `nil` if there is none.
    package func resource(at path: String) -> Resource? { resources.first { $0.matches(path) } }
}

extension RouteTable.Resource {
    /// The response to a request for this path: that of the handler of its method, which gets `HEAD` as `GET`.
    ///
    /// - Parameters:
    ///   - preflight: The response to `OPTIONS` for the accepted methods; `nil` if the path does not accept it.
    ///   - serve: Runs the handler.
    package func respond(
        to request: ServiceRequest, preflight: ((_ methods: String) -> ServiceResponse)? = nil,
        _ serve: (ServiceRequest, Handler) async -> ServiceResponse
    ) async -> ServiceResponse {
        var request = request
        if request.head.method == .head { request.head.method = .get }
        var response: ServiceResponse
        if let handler = handler(of: request.head.method) {
            response = await serve(request, handler)
        } else {
            let all = methods.flatMap { $0 == .get ? [.get, .head] : [$0] } + (preflight == nil ? [] : [.options])
            let allowed = all.map(\.rawValue).joined(separator: ", ")
            if let preflight, request.head.method == .options {
                response = preflight(allowed)
            } else {
                response = .refusal(.methodNotAllowed, "this path accepts \(allowed)")
                response.head.headerFields[.allow] = allowed
            }
        }
        response.route = path
        return response
    }
}

/// The path and the query of a request.
package struct RequestPath: Sendable {
    /// The path without the query.
    package let path: String
    /// The text after the question mark; `nil` without one.
    package let query: Substring?

    /// The path and the query of `request`.
    package init(_ request: HTTPRequest) {
        let whole = request.path ?? ""
        guard let mark = whole.utf8.firstIndex(of: UInt8(ascii: "?")) else {
            (path, query) = (whole, nil)
            return
        }
        (path, query) = (String(whole[..<mark]), whole[whole.utf8.index(after: mark)...])
    }

    /// The text that a percent-encoded part of a path stands for; `nil` if it is empty or not UTF-8.
    package static func decoded(_ part: Substring) -> String? {
        // An ampersand is an ordinary character in a path.
        let text = WireQuery(("name=" + part.replacing("&", with: "%26"))[...])?["name"]
        return text?.isEmpty == true ? nil : text
    }
}
