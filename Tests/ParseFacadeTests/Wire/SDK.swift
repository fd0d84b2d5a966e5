import Testing

/// The requests of the SDKs, with the header fields that they write.
enum SDK: String, CaseIterable, CustomTestStringConvertible {
    /// Parse-SDK-iOS-OSX from 4.1.0 on, which sends one request id in all requests of a process.
    case iOS
    /// Parse-SDK-JS, which sends no request id, or with idempotency a new one for each request.
    case javaScript, javaScriptWithIdempotency
    /// Parse-Swift, which sends a new request id for each request.
    case swift
    /// parse-php-sdk, which sends neither a request id nor an installation.
    case php
    /// qs-parse-rest, which sends neither a request id nor an installation.
    case python

    var testDescription: String { rawValue }

    /// Returns `true` if the SDK sends the request id of a request again when it repeats the request, and no other
    /// request has it.
    var hasRequestIDs: Bool { self == .swift || self == .javaScriptWithIdempotency }

    /// Sends a request.
    ///
    /// - Parameters:
    ///   - body: The members of the body, without the braces; for a read of iOS and JavaScript, the parameters.
    ///   - number: The number of the request, which its repetitions share.
    ///   - process: The number of the process of the app.
    func ask(
        _ stage: ParseStage, _ method: String, _ path: String, _ body: String = "", token: String? = nil,
        number: Int = 0, process: Int = 0
    ) async -> ParseReply {
        let json = body.isEmpty ? "" : "{\(body)}"
        switch self {
        case .iOS:
            var fields = [
                "X-Parse-Client-Key": "key", "X-Parse-Client-Version": "i4.1.1", "X-Parse-OS-Version": "17.4 (21E213)",
                "X-Parse-App-Build-Version": "7", "X-Parse-App-Display-Version": "1.2",
            ]
            if path == "/login" || path == "/users" { fields["X-Parse-Revocable-Session"] = "1" }
            if !json.isEmpty { fields["Content-Type"] = "application/json; charset=utf-8" }
            let isHidden = method != "POST" && method != "PUT" && !json.isEmpty
            return await stage.ask(
                isHidden ? "POST" : method, path, isHidden ? #"{\#(body),"_method":"\#(method)"}"# : json, token: token,
                installation: "e25ff2f5-6fd4-4b66-ad5f-3b9a2d8fd41c",
                request: "5C2D7A0E-0000-4000-8000-00000000000\(process)",
                further: fields)
        case .javaScript: return await stage.askAsJavaScript(method, path, body, token: token)
        case .javaScriptWithIdempotency:
            return await stage.askAsJavaScript(
                method, path, body, token: token, request: "0b1f5e5e-0000-4000-8000-\(100_000_000_000 + number)")
        case .swift:
            return await stage.ask(
                method, path, json, token: token, installation: "swift",
                request: "9A1F5E5E-0000-4000-8000-\(100_000_000_000 + number)",
                further: ["X-Parse-Client-Version": "swift5.11.2", "Content-Type": "application/json"])
        case .php:
            return await stage.ask(
                method, path, json, token: token, installation: nil,
                further: [
                    "X-Parse-Client-Version": "php2.3.0", "X-Parse-REST-API-Key": "key",
                    "X-Parse-Revocable-Session": "1",
                    "Content-type": "application/json",
                ])
        case .python:
            return await stage.ask(
                method, path, json, token: token, installation: nil,
                further: ["X-Parse-REST-API-Key": "key", "Content-type": "application/json"])
        }
    }

    /// A batch of requests, each with the members of its body.
    func batch(
        _ stage: ParseStage, _ requests: [(method: String, path: String, body: String)], token: String?, number: Int = 0
    ) async throws -> [ParseReply] {
        // NSJSONSerialization escapes slashes.
        let slash = self == .iOS ? #"\/"# : "/"
        let list = requests.map { request in
            let path = "/parse\(request.path)".replacing("/", with: slash)
            return #"{"method":"\#(request.method)","path":"\#(path)","body":{\#(request.body)}}"#
        }
        let transaction = self == .swift ? #","transaction":false"# : ""
        let reply = await ask(
            stage, "POST", "/batch", #""requests":[\#(list.joined(separator: ","))]"# + transaction, token: token,
            number: number)
        return try reply.parts()
    }

    /// The number of objects that the user has.
    func count(_ stage: ParseStage, _ token: String?) async -> Int? {
        let query = #""where":{},"limit":0,"count":1"#
        return await SDK.javaScript.ask(stage, "GET", "/classes/Purchase", query, token: token).members["count"] as? Int
    }
}
