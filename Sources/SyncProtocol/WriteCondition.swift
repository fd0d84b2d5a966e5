public import HTTPTypes
public import SyncCore

/// The condition of a `PUT` or `DELETE`.
///
/// | precondition | in the request |
/// |---|---|
/// | `absent` | `If-None-Match: *` |
/// | `matches(version)` | `If-Match: "…"` |
/// | `any` | `?if=any` in the query, and neither field |
///
/// A request with none of the three is usually a mistake, because it would overwrite an entry that the client has never
/// seen. It is answered with 428 (RFC 6585).
package enum WriteCondition: Hashable, Sendable {
    /// A precondition of the storage contract.
    case precondition(Precondition)
    /// `If-Match: *`: the key must hold an entry.
    case present
    /// `If-Match` with several tags, or with tags that cannot be versions: the key must hold one of these versions. An
    /// empty list never matches.
    case oneOf([EntryVersion])

    /// The query parameter that stands for `any`.
    package static let overwriting = "if=any"

    /// The condition of a request.
    ///
    /// - Parameters:
    ///   - fields: The header fields.
    ///   - isOverwriting: True if the query contains ``overwriting``.
    /// - Throws: ``ConditionError``.
    package init(_ fields: HTTPFields, isOverwriting: Bool) throws(ConditionError) {
        switch (fields.value(of: .ifMatch), fields.value(of: .ifNoneMatch), isOverwriting) {
        case (nil, nil, true): self = .precondition(.any)
        case (nil, nil, false): throw .missing
        case (let field?, nil, false):
            switch TagCondition(field) {
            case nil: throw .malformed("If-Match must be * or a list of entity tags")
            case .anything: self = .present
            case .tags(let tags):
                // A weak tag never satisfies `If-Match` (RFC 9110, section 13.1.1).
                let versions = tags.compactMap(\.version)
                self = tags.count == 1 && versions.count == 1 ? .precondition(.matches(versions[0])) : .oneOf(versions)
            }
        case (nil, let field?, false):
            guard case .anything = TagCondition(field) else {
                throw .malformed("If-None-Match of a write must be *; to replace a version, name it in If-Match")
            }
            self = .precondition(.absent)
        default: throw .malformed("send only one of If-Match, If-None-Match and ?if=any")
        }
    }
}

/// The reason why a request has no usable condition.
package enum ConditionError: Error, Hashable, Sendable {
    /// The request has no condition: 428.
    case missing
    /// The condition is malformed or contradictory: 400. The associated value is one line that says what to do.
    case malformed(String)
}

extension Precondition {
    /// The header field and the query parameter that express this precondition.
    public var wire: (field: HTTPField?, query: String?) {
        switch self {
        case .any: (nil, WriteCondition.overwriting)
        case .absent: (HTTPField(name: .ifNoneMatch, value: "*"), nil)
        case .matches(let version): (HTTPField(name: .ifMatch, value: EntityTag(version).description), nil)
        }
    }
}
