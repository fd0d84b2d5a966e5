/// The set and cleared marks of a product, the input of a ``FlagRule``.
public struct FlagMarks: Hashable, Sendable {
    /// A product in an environment.
    public struct Reference: Hashable, Comparable, Sendable {
        /// The product.
        public var product: ProductID
        /// The environment.
        public var environment: EnvironmentID

        /// Creates a reference to the marks of `product` in `environment`.
        public init(_ product: ProductID, _ environment: EnvironmentID = .production) {
            self.product = product
            self.environment = environment
        }

        /// Orders references by product, then environment.
        public static func < (left: Reference, right: Reference) -> Bool {
            (left.product, left.environment) < (right.product, right.environment)
        }
    }

    /// The mark that sets the flag, if there is one.
    public var set: Flag?
    /// The mark that clears the flag, if there is one.
    public var cleared: Flag?
    /// The mark that sets the flag, if the remote held one at the last contact.
    public var setAtRemote: Flag?
    /// The mark that clears the flag, if the remote held one at the last contact.
    public var clearedAtRemote: Flag?

    /// Creates a value without marks.
    public init() {}

    mutating func add(_ flag: Flag, isHeld: Bool) {
        if flag.isSet { set = flag } else { cleared = flag }
        if isHeld { addRemote(flag) }
    }

    mutating func addRemote(_ flag: Flag) {
        if flag.isSet { setAtRemote = flag } else { clearedAtRemote = flag }
    }

    /// The later of the two marks: by logical time, then by replica. `nil` if there are none.
    public var latest: Flag? { Self.later(set, cleared) }

    /// Returns the later of two marks: by logical time, then by replica, which is the order that merging uses.
    static func later(_ left: Flag?, _ right: Flag?) -> Flag? {
        guard let left else { return right }
        guard let right else { return left }
        return (left.logicalTime, left.replica) < (right.logicalTime, right.replica) ? right : left
    }

    /// Returns only the marks that are later than `time`, the logical time of a reset.
    func after(_ time: LogicalTime) -> FlagMarks {
        var marks = self
        for path in [\FlagMarks.set, \.cleared, \.setAtRemote, \.clearedAtRemote] {
            if let mark = marks[keyPath: path], mark.logicalTime <= time { marks[keyPath: path] = nil }
        }
        return marks
    }
}
