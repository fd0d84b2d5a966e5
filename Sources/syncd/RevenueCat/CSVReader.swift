import Entitlements

/// Reads comma-separated values (RFC 4180) one record at a time, in memory that does not grow with the file.
///
/// Commas and semicolons are accepted as separators; the first line decides. Lines end in LF or CR LF.
struct CSVReader {
    /// One line after the first.
    struct Record {
        /// The texts, as many as ``CSVReader/columns`` has names.
        var values: [String]
        /// The line in which it begins, counted from 1.
        var line: Int
    }

    /// The largest size of a record, in bytes.
    static let recordByteCount = 1 << 20

    /// The names of the first line.
    private(set) var columns: [String]
    /// The number of bytes that were read from the source.
    private(set) var byteCount = 0

    private let source: () throws -> [UInt8]
    private var separator = UInt8(ascii: ",")
    private var buffer: [UInt8] = []
    private var position = 0
    private var isAtEnd = false
    private var line = 1

    /// A reader of the bytes that `source` returns, piece by piece, until it returns none.
    init(_ source: @escaping () throws -> [UInt8]) throws {
        self.source = source
        columns = []
        // The first line decides about the separator.
        while !isAtEnd, !buffer.contains(0x0A), buffer.count < Self.recordByteCount {
            let bytes = try source()
            byteCount += bytes.count
            buffer += bytes
            isAtEnd = bytes.isEmpty
        }
        if buffer.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }
        let first = buffer[position...].prefix { $0 != 0x0A }
        if first.count(where: { $0 == UInt8(ascii: ";") }) > first.count(where: { $0 == separator }) {
            separator = UInt8(ascii: ";")
        }
        guard let names = try values() else { throw InputError(path: "line 1", reason: "the file is empty") }
        columns = names.map { $0.lowercased() }
        guard Set(columns).count == columns.count else {
            throw InputError(path: "line 1", reason: "two columns have the same name")
        }
    }

    /// The next record; `nil` at the end.
    ///
    /// - Throws: `InputError` with the line of a record that is cut off or has another number of fields, or the
    ///   source's error.
    mutating func next() throws -> Record? {
        while true {
            let start = line
            guard let values = try values() else { return nil }
            // A blank line.
            if values == [""], columns.count > 1 { continue }
            guard values.count == columns.count else {
                let hint = isAtEnd && position >= buffer.count ? "; the last line is cut off: export again" : ""
                throw InputError(
                    path: "line \(start)",
                    reason: "\(values.count) fields, but the first line names \(columns.count) columns\(hint)")
            }
            return Record(values: values, line: start)
        }
    }

    /// The fields of the next line; `nil` at the end.
    private mutating func values() throws -> [String]? {
        guard try peek() != nil else { return nil }
        let start = line
        var values: [String] = []
        var field: [UInt8] = []
        var (isQuoted, isText, length) = (false, false, 0)
        while let byte = try peek() {
            position += 1
            length += 1
            guard length <= Self.recordByteCount else {
                throw InputError(path: "line \(start)", reason: "a record can have at most 1 MiB")
            }
            if byte == 0x0A { line += 1 }
            if isText {
                guard byte == 0x22 else {
                    field.append(byte)
                    continue
                }
                // Two quotation marks stand for one.
                if try peek() == 0x22 {
                    position += 1
                    field.append(byte)
                } else {
                    isText = false
                }
            } else if byte == 0x22, field.isEmpty, !isQuoted {
                (isQuoted, isText) = (true, true)
            } else if byte == separator {
                values.append(String(decoding: field, as: UTF8.self))
                (field, isQuoted) = ([], false)
            } else if byte == 0x0A {
                if field.last == 0x0D { field.removeLast() }
                return values + [String(decoding: field, as: UTF8.self)]
            } else {
                field.append(byte)
            }
        }
        guard !isText else {
            throw InputError(
                path: "line \(start)", reason: "a quotation mark is not closed; the file is cut off: export again")
        }
        if field.last == 0x0D { field.removeLast() }
        return values + [String(decoding: field, as: UTF8.self)]
    }

    /// The next byte; `nil` at the end.
    private mutating func peek() throws -> UInt8? {
        if position < buffer.count { return buffer[position] }
        guard !isAtEnd else { return nil }
        buffer = try source()
        position = 0
        byteCount += buffer.count
        isAtEnd = buffer.isEmpty
        return buffer.first
    }
}
