public import HTTPTypes
public import SyncCore

/// Under which condition a `PUT` or `DELETE` is to happen.
///
/// | of the contract | in the request |
/// |---|---|
/// | `absent` | `If-None-Match: *` |
/// | `matches(version)` | `If-Match: "…"` |
/// | `any` | `?if=any` in the query, and neither field |
///
/// A request with none of the three is a mistake more often than not: it overwrites what its sender has never seen. It
/// is answered with 428 (RFC 6585).
public enum WriteCondition: Hashable, Sendable {
    /// One of the contract's.
    case precondition(Precondition)
    /// `If-Match: *`: something has to be there.
    case present
    /// `If-Match` with several tags, or with such as no store here has made: one of these versions, which may be none.
    case oneOf([EntryVersion])

    /// What of the query stands for `any`.
    public static let overwriting = "if=any"

    /// The condition of a request.
    ///
    /// - Parameters:
    ///   - fields: its header.
    ///   - isOverwriting: whether its query says ``overwriting``.
    /// - Throws: ``ConditionError``.
    public init(_ fields: HTTPFields, isOverwriting: Bool) throws(ConditionError) {
        switch (fields.value(of: .ifMatch), fields.value(of: .ifNoneMatch), isOverwriting) {
        case (nil, nil, true): self = .precondition(.any)
        case (nil, nil, false): throw .missing
        case (let field?, nil, false):
            switch TagCondition(field) {
            case nil: throw .malformed("If-Match is * or a list of entity tags")
            case .anything: self = .present
            case .tags(let tags):
                // A weak tag matches nothing here (RFC 9110, section 13.1.1).
                let versions = tags.compactMap(\.version)
                self = tags.count == 1 && versions.count == 1 ? .precondition(.matches(versions[0])) : .oneOf(versions)
            }
        case (nil, let field?, false):
            guard case .anything = TagCondition(field) else {
                throw .malformed("If-None-Match of a write is *; to replace a version, name it in If-Match")
            }
            self = .precondition(.absent)
        default: throw .malformed("If-Match, If-None-Match and ?if=any exclude each other")
        }
    }
}

/// Why a request has no condition that could be kept.
public enum ConditionError: Error, Hashable, Sendable {
    /// It has none: 428.
    case missing
    /// It contradicts itself or is none: 400. One line that says what to do.
    case malformed(String)
}

extension Precondition {
    /// The header field and the part of the query that ask for it.
    public var wire: (field: HTTPField?, query: String?) {
        switch self {
        case .any: (nil, WriteCondition.overwriting)
        case .absent: (HTTPField(name: .ifNoneMatch, value: "*"), nil)
        case .matches(let version): (HTTPField(name: .ifMatch, value: EntityTag(version).description), nil)
        }
    }
}
