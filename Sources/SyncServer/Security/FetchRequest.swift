import HTTPTypes

/// Builds the request for a document at a URL.
enum FetchRequest {
    /// Returns a GET request for `address`; `nil` if it is not an http or https URL with a host and without a user.
    static func get(_ address: String) -> HTTPRequest? {
        guard let colon = address.firstIndex(of: ":"), address[colon...].hasPrefix("://") else { return nil }
        let scheme = address[..<colon].lowercased()
        let rest = address[colon...].dropFirst(3)
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard scheme == "http" || scheme == "https", !authority.isEmpty, !authority.contains("@") else { return nil }
        var path = String(rest.dropFirst(authority.count).prefix { $0 != "#" })
        if !path.hasPrefix("/") { path = "/" + path }
        return HTTPRequest(
            method: .get, scheme: scheme, authority: String(authority), path: path,
            headerFields: [.accept: "application/json"])
    }
}
