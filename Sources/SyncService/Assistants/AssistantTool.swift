import Entitlements
import HTTPTypes

/// A member of a tool's arguments, or of its results.
struct ToolField: Sendable {
    enum Kind: String, Sendable {
        case text = "string"
        case number = "integer"
        case flag = "boolean"
        case list = "array"
        case object

        /// The type in messages.
        var name: String {
            switch self {
            case .text: "a text"
            case .number: "a whole number"
            case .flag: "true or false"
            case .list: "an array"
            case .object: "an object"
            }
        }

        fileprivate func admits(_ value: JSON) -> Bool {
            switch (self, value) {
            case (.text, .string), (.number, .number), (.flag, .bool), (.list, .array), (.object, .object): true
            default: false
            }
        }
    }

    let name: String
    let kind: Kind
    let description: String
    var isRequired = false
    /// True for a member of a result that may be `null`.
    var isNullable = false
    /// The bounds of a number.
    var range: ClosedRange<Int64>?

    init(
        _ name: String, _ kind: Kind, _ description: String, isRequired: Bool = false, isNullable: Bool = false,
        range: ClosedRange<Int64>? = nil
    ) {
        (self.name, self.kind, self.description, self.range) = (name, kind, description, range)
        (self.isRequired, self.isNullable) = (isRequired, isNullable)
    }

    /// The longest text, in bytes.
    static let textByteCount = 2_000

    /// The JSON schema of an object with `fields`.
    ///
    /// - Parameter isClosed: True if it has no other members.
    static func schema(of fields: [ToolField], isClosed: Bool) -> JSON {
        let required = fields.filter(\.isRequired).map { JSON.string($0.name) }
        return .object([
            ("type", .string("object")), ("properties", .object(fields.map { ($0.name, $0.schema) })),
            ("required", .array(required)), ("additionalProperties", .bool(!isClosed)),
        ])
    }

    private var schema: JSON {
        let type = JSON.string(kind.rawValue)
        var members: [(String, JSON)] = [
            ("type", isNullable ? .array([type, .string("null")]) : type), ("description", .string(description)),
        ]
        if let range {
            members += [("minimum", .number(range.lowerBound)), ("maximum", .number(range.upperBound))]
        }
        return .object(members)
    }

    /// Checks a value of an argument.
    fileprivate func check(_ value: JSON) throws(RequestError) {
        guard kind.admits(value) else {
            throw RequestError(.badRequest, "the argument \"\(name)\" must be \(kind.name), not \(value.typeName)")
        }
        if case .number(let number) = value, let range, !range.contains(number) {
            throw RequestError(
                .badRequest,
                "the argument \"\(name)\" must be \(range.lowerBound) to \(range.upperBound), not \(number)")
        }
        if case .string(let text) = value, !(1...Self.textByteCount).contains(text.utf8.count) {
            throw RequestError(
                .badRequest,
                "the argument \"\(name)\" must have 1 to \(Self.textByteCount) bytes, not \(text.utf8.count)")
        }
    }
}

/// The checked arguments of a call.
struct ToolArguments: Sendable {
    /// The arguments that are not `null`.
    let values: [String: JSON]

    /// Checks the arguments of a call.
    ///
    /// - Throws: ``RequestError`` that names the argument.
    init(_ value: JSON?, _ fields: [ToolField]) throws(RequestError) {
        guard let members = (value ?? .object([])).members else {
            throw RequestError(.badRequest, "\"arguments\" must be an object, not \(value?.typeName ?? "")")
        }
        var values: [String: JSON] = [:]
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            guard let field = fields.first(where: { $0.name == name }) else {
                let known = fields.isEmpty ? "none" : fields.map(\.name).joined(separator: ", ")
                throw RequestError(.badRequest, "unknown argument \"\(name.singleLine)\"; known here: \(known)")
            }
            if case .null = value { continue }
            try field.check(value)
            values[name] = value
        }
        if let missing = fields.first(where: { $0.isRequired && values[$0.name] == nil }) {
            throw RequestError(
                .badRequest,
                "the argument \"\(missing.name)\" is required, \(missing.kind.name): \(missing.description)")
        }
        self.values = values
    }

    subscript(name: String) -> String? { values[name]?.string }

    func number(_ name: String) -> Int64? { if case .number(let number)? = values[name] { number } else { nil } }
}

/// The result of a tool.
struct ToolResult: Sendable {
    /// One sentence about the result.
    var summary: String
    /// Sensible next calls.
    var next: [String] = []
    /// The other members.
    var members: [(String, JSON)]

    /// The largest result, in bytes of JSON.
    static let byteCount = 16_384

    /// The members that every result has.
    static let fields = [
        ToolField("summary", .text, "The result in one sentence.", isRequired: true),
        ToolField("next_steps", .list, "What the operator could do next.", isRequired: true),
        ToolField(
            "omitted", .object,
            "The numbers of elements that were left out to keep the result short, by the paths of their lists."),
    ]

    /// The JSON object, with at most ``byteCount`` bytes: long lists and texts are cut.
    var json: JSON {
        let head: [(String, JSON)] = [
            ("summary", .string(summary.visible(atMost: 2_000))),
            ("next_steps", .array(next.prefix(10).map { .string($0.visible(atMost: 500)) })),
        ]
        for limit in [50, 20, 5, 1, 0] {
            var omitted: [String: JSON] = [:]
            let cut = members.map { ($0.0, $0.1.cut(to: limit, at: $0.0, &omitted)) }
            let bounded = JSON.object(head + cut + (omitted.isEmpty ? [] : [("omitted", .object(omitted))]))
            if bounded.line.utf8.count <= Self.byteCount { return bounded }
        }
        // Many long texts in few members.
        return .object(head + [("omitted", .object([("members", .number(Int64(members.count)))]))])
    }
}

/// A tool for assistants: a question or an act of the operators' API.
struct AssistantTool: Sendable {
    typealias Handler =
        @Sendable (EntitlementService, ToolArguments, ToolCall) async throws -> ToolResult

    let name: String
    let title: String
    let description: String
    var scope = OperatorScope.read
    let input: [ToolField]
    /// The members of the result besides ``ToolResult/fields``.
    let output: [ToolField]
    let handler: Handler

    /// All tools, in the order in which they are listed.
    static let all = questions + acts

    /// The entry of the tool in a list.
    var json: JSON {
        let isQuestion = scope == .read
        return .object([
            ("name", .string(name)), ("title", .string(title)), ("description", .string(description)),
            ("inputSchema", ToolField.schema(of: input, isClosed: true)),
            ("outputSchema", ToolField.schema(of: ToolResult.fields + output, isClosed: false)),
            (
                "annotations",
                .object([
                    ("title", .string(title)), ("readOnlyHint", .bool(isQuestion)),
                    ("destructiveHint", .bool(!isQuestion)), ("idempotentHint", .bool(true)),
                    ("openWorldHint", .bool(false)),
                ])
            ),
        ])
    }
}

/// The request with which a tool is called.
struct ToolCall: Sendable {
    let call: EntitlementService.Call
    let caller: OperatorCaller
}

extension JSON {
    /// The value with at most `count` elements in each list and each nested object, and with visible characters only.
    ///
    /// - Parameter omitted: Receives the numbers of elements that were left out.
    fileprivate func cut(to count: Int, at path: String, _ omitted: inout [String: JSON]) -> JSON {
        switch self {
        case .string(let text): return .string(text.visible(atMost: 1_000))
        case .array(let elements):
            if elements.count > count { omitted[path] = .number(Int64(elements.count - count)) }
            return .array(elements.prefix(count).map { $0.cut(to: count, at: path + "[]", &omitted) })
        case .object(let members):
            // The members of the project's own objects are fewer.
            let count = Swift.max(count, 20)
            if members.count > count { omitted[path] = .number(Int64(members.count - count)) }
            return .object(
                members.prefix(count).map { name, value in
                    (name.visible(atMost: 200), value.cut(to: count, at: "\(path).\(name.singleLine)", &omitted))
                })
        default: return self
        }
    }
}

extension String {
    /// The text with characters that a reader does not see written as `\u{202e}`: controls, separators of lines,
    /// changes of direction and other marks without a shape. Longer texts are cut.
    func visible(atMost count: Int) -> String {
        var text = UnicodeScalarView()
        for scalar in unicodeScalars.prefix(count) {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
                text.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
            default: text.append(scalar)
            }
        }
        return String(text) + (unicodeScalars.count > count ? "…" : "")
    }
}
