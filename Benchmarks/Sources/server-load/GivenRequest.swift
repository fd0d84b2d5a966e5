import Foundation
import LoadTesting

/// A request of the file that `--requests` names.
struct GivenRequest: Decodable {
    var method: String
    var path: String
    var fields: [String: String]?
    var body: String?

    /// Reads a file with a request a line.
    static func read(_ path: String, at target: LoadTarget) throws -> [RequestBytes] {
        let lines = try Data(contentsOf: URL(filePath: path)).split(separator: UInt8(ascii: "\n"))
        guard !lines.isEmpty else { throw LoadFailure(description: "--requests: \(path) has no requests") }
        return try lines.enumerated().map { index, line in
            guard let request = try? JSONDecoder().decode(Self.self, from: Data(line)), request.isValid else {
                throw LoadFailure(
                    description: "--requests: line \(index + 1) of \(path) must be "
                        + #"{"method":"GET","path":"/…","fields":{"Name":"value"},"body":"…"}"#)
            }
            let fields = (request.fields ?? [:]).sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
            return RequestBytes(
                request.method, request.path, at: target, fields: fields, body: Array((request.body ?? "").utf8))
        }
    }

    /// True if no part of the request ends its line early.
    private var isValid: Bool {
        let values = (fields ?? [:]).flatMap { [$0.key, $0.value] }
        return !method.isEmpty && method.allSatisfy { $0.isASCII && $0.isUppercase } && path.hasPrefix("/")
            && !path.contains(" ") && ([path] + values).allSatisfy { !$0.utf8.contains { $0 < 0x20 } }
    }
}
