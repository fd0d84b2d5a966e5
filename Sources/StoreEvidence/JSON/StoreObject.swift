#if Evidence
internal import Entitlements

/// A JSON object of a store.
///
/// Unknown members are ignored, because stores add members at any time. A member of an unexpected type is refused.
struct StoreObject {
    private let members: JSONObjectReader

    /// Parses one JSON object.
    ///
    /// - Throws: ``EvidenceError`` with the check `format`.
    init(parsing bytes: some Collection<UInt8>) throws(EvidenceError) {
        let root: JSONReader
        do throws(InputError) { root = try JSONReader(parsing: bytes) } catch {
            throw EvidenceError(.format, "the JSON text is invalid at \(error)")
        }
        do throws(InputError) { members = try root.object() } catch { throw EvidenceError(.format, "\(error)") }
    }

    private init(_ reader: JSONReader) throws(InputError) {
        members = try reader.object()
    }

    /// Returns the text of a member; `nil` if it is missing, null or empty.
    func string(_ name: String) throws(EvidenceError) -> String? {
        let text = try value(name) { (reader) throws(InputError) in try reader.string() }
        return text == "" ? nil : text
    }

    /// Returns an id, which may be written as a number; `nil` if it is missing, null or empty.
    func id(_ name: String) throws(EvidenceError) -> String? {
        let text = try value(name) { (reader) throws(InputError) in try reader.identifier() }
        return text == "" ? nil : text
    }

    /// Returns an id that must not be missing or empty.
    func requiredID(_ name: String) throws(EvidenceError) -> String {
        guard let id = try id(name) else { throw missing(name) }
        return id
    }

    /// Returns a whole number; `nil` if the member is missing or null. Google writes 64-bit numbers as strings.
    func integer(_ name: String) throws(EvidenceError) -> Int64? {
        try value(name) { (reader) throws(InputError) in try reader.wholeNumber() }
    }

    /// Returns the quantity of a purchase; `nil` if the member is missing or null.
    func quantity(_ name: String = "quantity") throws(EvidenceError) -> Int64? {
        guard let quantity = try integer(name) else { return nil }
        try checkQuantity(quantity, name)
        return quantity
    }

    /// Returns a truth value; `false` if the member is missing or null.
    func bool(_ name: String) throws(EvidenceError) -> Bool {
        try value(name) { (reader) throws(InputError) in try reader.bool() } ?? false
    }

    /// Returns a truth value that must not be missing or null.
    func requiredBool(_ name: String) throws(EvidenceError) -> Bool {
        guard members[name] != nil else { throw missing(name) }
        return try bool(name)
    }

    /// Returns the text of a member that has the length of an id; `nil` if it is missing, null or empty.
    func short(_ name: String) throws(EvidenceError) -> String? {
        guard let text = try string(name) else { return nil }
        guard text.utf8.count <= maximumIdentifierByteCount else {
            throw EvidenceError(
                .content, "\(name) must have at most \(maximumIdentifierByteCount) bytes, not \(text.utf8.count)")
        }
        return text
    }

    /// Returns a date in RFC 3339; `nil` if the member is missing or null.
    func date(_ name: String) throws(EvidenceError) -> Timestamp? {
        try value(name) { (reader) throws(InputError) in try reader.timestamp() }
    }

    /// Returns a date in milliseconds or seconds since 1970; `nil` if the member is missing or null.
    func date(_ name: String, unit: Int64) throws(EvidenceError) -> Timestamp? {
        try value(name) { (reader) throws(InputError) in try reader.date(unit: unit) }
    }

    /// Returns a date in milliseconds since 1970, which may have a fraction, as Xcode writes it; `nil` if the member is
    /// missing or null.
    func milliseconds(_ name: String) throws(EvidenceError) -> Timestamp? {
        guard let reader = members[name] else { return nil }
        guard case .decimal(let text) = reader.value else { return try date(name, unit: 1) }
        guard let number = Double(text), number >= 0, number < Double(Timestamp.latest.milliseconds) else {
            throw EvidenceError(.content, "\(reader.path): the date must be in the years 1970 to 9999, not \(text)")
        }
        return Timestamp(milliseconds: Int64(number))
    }

    /// Returns `true` if there is a member `name`, even if it is null.
    func contains(_ name: String) -> Bool { members.contains(name) }

    /// Returns an object; `nil` if the member is missing or null.
    func object(_ name: String) throws(EvidenceError) -> StoreObject? {
        try value(name) { (reader) throws(InputError) in try StoreObject(reader) }
    }

    /// The members, each of which must be an object, in ascending order of their names.
    func entries() throws(EvidenceError) -> [(name: String, object: StoreObject)] {
        try members.all.map { (name, reader) throws(EvidenceError) in
            (name, try content { () throws(InputError) in try StoreObject(reader) })
        }
    }

    /// Returns an array of objects; empty if the member is missing or null.
    func objects(_ name: String) throws(EvidenceError) -> [StoreObject] {
        try elements(name) { (element) throws(InputError) in try StoreObject(element) }
    }

    /// Returns an array of strings; empty if the member is missing or null.
    func strings(_ name: String) throws(EvidenceError) -> [String] {
        try elements(name) { (element) throws(InputError) in try element.string() }
    }

    /// Returns another object, which Stripe writes either as its id or as the object itself; `nil` for an id.
    func expanded(_ name: String) throws(EvidenceError) -> StoreObject? {
        guard let reader = members[name], case .object = reader.value else {
            _ = try id(name)
            return nil
        }
        return try object(name)
    }

    /// Returns the id of another object, which Stripe writes either as its id or as the object itself.
    func reference(_ name: String) throws(EvidenceError) -> String? {
        if let reader = members[name], case .object = reader.value { return try object(name)?.id("id") }
        return try id(name)
    }

    /// Returns the text of a member that must not be missing or empty.
    func required(_ name: String) throws(EvidenceError) -> String {
        guard let text = try string(name) else { throw missing(name) }
        return text
    }

    /// The refusal of an object without the member `name`.
    func missing(_ name: String) -> EvidenceError {
        do throws(InputError) {
            _ = try members.required(name)
            return EvidenceError(.content, "\(name): this is empty")
        } catch {
            return EvidenceError(.content, "\(error)")
        }
    }

    /// Reads a member; `nil` if it is missing or null.
    private func value<Value>(
        _ name: String, _ read: (JSONReader) throws(InputError) -> Value
    ) throws(EvidenceError) -> Value? {
        guard let reader = members[name] else { return nil }
        return try content { () throws(InputError) in try read(reader) }
    }

    /// Reads the elements of an array; empty if the member is missing or null.
    private func elements<Value>(
        _ name: String, _ read: (JSONReader) throws(InputError) -> Value
    ) throws(EvidenceError) -> [Value] {
        try value(name) { (reader) throws(InputError) in try reader.array().map(read) } ?? []
    }

    private func content<Result>(_ read: () throws(InputError) -> Result) throws(EvidenceError) -> Result {
        do throws(InputError) { return try read() } catch { throw EvidenceError(.content, "\(error)") }
    }
}

/// Google and Apple write many numbers as strings.
extension JSONReader {
    /// The whole number, which may be written as a string.
    func wholeNumber() throws(InputError) -> Int64 {
        guard case .string(let text) = value else { return try integer() }
        guard let number = Int64(text) else {
            throw error("a whole number is expected, not \"\(text.singleLine)\"")
        }
        return number
    }

    /// The date in units of `unit` milliseconds since 1970.
    func date(unit: Int64) throws(InputError) -> Timestamp {
        let number = try wholeNumber()
        let (milliseconds, overflow) = number.multipliedReportingOverflow(by: unit)
        guard !overflow, (0...Timestamp.latest.milliseconds).contains(milliseconds) else {
            throw error("the date must be in the years 1970 to 9999, not \(number)")
        }
        return Timestamp(milliseconds: milliseconds)
    }
}

extension Identifier {
    /// Returns the id if it is valid.
    ///
    /// - Throws: ``EvidenceError`` with the check `content`.
    func checked(_ name: String) throws(EvidenceError) -> Self {
        do throws(IdentifierError) { try validate() } catch { throw EvidenceError(.content, "\(name): \(error)") }
        return self
    }
}

extension RenewalState {
    /// Returns the product to which a subscription to `product` changes at its renewal: `next`, unless the renewal is
    /// off or keeps the product.
    static func pendingProduct(_ next: ProductID?, after product: ProductID?, willRenew: Bool) -> ProductID? {
        willRenew && next != product ? next : nil
    }
}

/// Checks that `date`, under which a statement is filed, is at most 5 minutes after `now`.
func checkNotAhead(_ date: Timestamp, of now: Timestamp, _ name: String) throws(EvidenceError) {
    guard date.milliseconds - now.milliseconds <= EvidenceLimits.clockTolerance else {
        throw EvidenceError(
            .signedDate, "\(name) \(date) is after \(now), the time of this machine; set its clock, or send it later",
            isTransient: true)
    }
}

/// Checks that a purchase may have `quantity`, whose name in messages is `name`.
func checkQuantity(_ quantity: Int64, _ name: String) throws(EvidenceError) {
    guard Purchase.quantityRange.contains(quantity) else {
        throw EvidenceError(.content, "\(name) must be 1 to 10,000, not \(quantity)")
    }
}

/// Checks that evidence of `count` bytes is within `limit`.
func checkSize(_ count: Int, limit: Int, _ name: String) throws(EvidenceError) {
    guard count <= limit else {
        throw EvidenceError(.size, "\(name) has \(count) bytes, more than \(limit)")
    }
}
#endif
