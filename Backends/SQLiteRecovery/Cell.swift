import SQLiteStorage

/// A record in a page of a table or index, assembled from the page and its overflow pages.
struct Cell {
    /// One column of a record.
    enum Column: Equatable {
        case null
        case integer(Int64)
        case bytes([UInt8])
        /// A real number or text, which a store does not contain.
        case other
    }

    let columns: [Column]
    /// The row's number; `nil` in an index.
    let rowID: Int64?

    /// The readable cells of page `number`, with `nil` for unreadable ones; empty if it is not a page of a tree.
    static func cells(onPage number: Int, of pages: PageSource) -> (isTable: Bool, cells: [Cell?]) {
        guard let page = pages.page(number) else { return (false, []) }
        let start = number == 1 ? 100 : 0
        let kind = page[start]
        // Leaves of tables and indexes, and inner pages of indexes, which have records too.
        guard [0x0D, 0x0A, 0x02].contains(kind) else { return (false, []) }
        let pointers = start + (kind == 0x02 ? 12 : 8)
        let count = min(page.bigEndian(at: start + 3, count: 2), (page.count - pointers) / 2)
        let cells = (0..<count).map { index in
            Cell(
                page: page, offset: page.bigEndian(at: pointers + 2 * index, count: 2), kind: kind, pages: pages)
        }
        return (kind == 0x0D, cells)
    }

    /// The possible cells of a table leaf on page `number` whose header is damaged: the kind may have a flipped bit,
    /// and the number of cells may be wrong.
    ///
    /// Use it only for missing keys, because the unused part of a page may have outdated rows and arbitrary bytes.
    static func suspectedCells(onPage number: Int, of pages: PageSource) -> [Cell] {
        guard number > 1, let page = pages.page(number), (page[0] ^ 0x0D).nonzeroBitCount <= 1 else { return [] }
        return stride(from: 8, to: page.count - 1, by: 2).compactMap { slot in
            let offset = page.bigEndian(at: slot, count: 2)
            guard offset > slot else { return nil }
            return Cell(page: page, offset: offset, kind: 0x0D, pages: pages)
        }
    }

    private init?(page: [UInt8], offset: Int, kind: UInt8, pages: PageSource) {
        var reader = ByteReader(bytes: page, offset: offset + (kind == 0x02 ? 4 : 0))
        guard let size = reader.varint(), size > 0, size <= 1 << 30 else { return nil }
        let rowID = kind == 0x0D ? reader.varint() : nil
        if kind == 0x0D, rowID == nil { return nil }
        let usable = page.count
        let maximum = kind == 0x0D ? usable - 35 : (usable - 12) * 64 / 255 - 23
        let minimum = (usable - 12) * 32 / 255 - 23
        var local = Int(size)
        if local > maximum {
            let rest = minimum + (Int(size) - minimum) % (usable - 4)
            local = rest <= maximum ? rest : minimum
        }
        guard var payload = reader.bytes(local) else { return nil }
        if payload.count < Int(size) {
            guard let first = reader.bytes(4) else { return nil }
            guard Self.append(to: &payload, from: first.bigEndian(at: 0), until: Int(size), pages) else { return nil }
        }
        guard let columns = Self.columns(of: payload) else { return nil }
        self.columns = columns
        self.rowID = rowID
    }

    private static func append(
        to payload: inout [UInt8], from first: Int, until size: Int, _ pages: PageSource
    ) -> Bool {
        var next = first
        while payload.count < size {
            guard let page = pages.page(next) else { return false }
            next = page.bigEndian(at: 0)
            payload += page[4...].prefix(size - payload.count)
        }
        return true
    }

    private static func columns(of payload: [UInt8]) -> [Column]? {
        var header = ByteReader(bytes: payload, offset: 0)
        guard let headerSize = header.varint(), (1...Int64(payload.count)).contains(headerSize) else { return nil }
        var body = ByteReader(bytes: payload, offset: Int(headerSize))
        var columns: [Column] = []
        while header.offset < Int(headerSize) {
            guard columns.count < 16, let type = header.varint(), let column = column(type, &body) else { return nil }
            columns.append(column)
        }
        return columns
    }

    private static func column(_ type: Int64, _ body: inout ByteReader) -> Column? {
        switch type {
        case 0: return .null
        case 1...6:
            guard let bytes = body.bytes([1, 2, 3, 4, 6, 8][Int(type) - 1]) else { return nil }
            let isNegative = bytes[0] & 0x80 != 0
            return .integer(bytes.reduce(isNegative ? -1 : 0) { $0 << 8 | Int64($1) })
        case 7: return body.bytes(8).map { _ in .other }
        case 8: return .integer(0)
        case 9: return .integer(1)
        case 12...:
            guard let bytes = body.bytes(Int((type - 12) / 2)) else { return nil }
            return type % 2 == 0 ? .bytes(bytes) : .other
        default: return nil
        }
    }
}

/// Reads consecutive bytes up to the end of a buffer.
private struct ByteReader {
    let bytes: [UInt8]
    private(set) var offset: Int

    init(bytes: [UInt8], offset: Int) {
        self.bytes = bytes
        self.offset = offset
    }

    mutating func bytes(_ count: Int) -> [UInt8]? {
        guard count >= 0, offset >= 0, count <= bytes.count - offset else { return nil }
        defer { offset += count }
        return Array(bytes[offset..<(offset + count)])
    }

    /// SQLite's variable-length integer: 1 to 9 bytes of 7 bits, the last one of 8.
    mutating func varint() -> Int64? {
        var value: UInt64 = 0
        for index in 0..<9 {
            guard offset >= 0, offset < bytes.count else { return nil }
            let byte = bytes[offset]
            offset += 1
            if index == 8 {
                value = value << 8 | UInt64(byte)
            } else {
                value = value << 7 | UInt64(byte & 0x7F)
                if byte & 0x80 == 0 { break }
            }
        }
        return Int64(bitPattern: value)
    }
}
