import SyncCore

/// The pages of a database as its last commit left them: from the write-ahead log where it has them, else from the
/// file. Follows SQLite's published file format, and needs nothing of the file to be whole.
final class PageSource {
    let pageSize: Int
    /// The pages that there are, those only in the log included.
    let pageCount: Int
    let path: String
    /// Whether the header says that this is a store.
    let isStore: Bool
    private let file: RawFile?
    private let log: RawFile?
    /// Where in the log the content of a page begins.
    private var logOffsets: [Int: Int] = [:]

    init(path: String) throws {
        self.path = path
        // Without the file the log may have it all.
        file = try FileIdentity.look(at: path) == .missing ? nil : RawFile(path: path)
        if case .file(let identity) = try FileIdentity.look(at: path + "-wal"), identity.byteCount >= 32 {
            log = try RawFile(path: path + "-wal")
        } else {
            log = nil
        }
        let header = try file?.bytes(from: 0, count: 100) ?? []
        isStore = header.count == 100 && header.bigEndian(at: 68) == Int(StoreSchema.applicationID)
        let logHeader = try log?.bytes(from: 0, count: 32) ?? []
        let claims = [
            logHeader.count == 32 ? logHeader.bigEndian(at: 8) : 0,
            header.count == 100 ? header.bigEndian(at: 16, count: 2) : 0,
        ]
        // A store of ours has never another size; a database that was converted might.
        let isOurs = claims.contains(StoreSchema.pageSize) || header.count < 100
        let claimed = claims.first { $0 >= 512 && $0 <= 32_768 && $0 & ($0 - 1) == 0 }
        pageSize = isOurs ? StoreSchema.pageSize : claimed ?? StoreSchema.pageSize
        var count = ((file?.byteCount ?? 0) + pageSize - 1) / pageSize
        if let log { logOffsets = try Self.committedPages(of: log, header: logHeader, pageSize: pageSize) }
        for (page, _) in logOffsets { count = max(count, page) }
        pageCount = count
    }

    /// The content of page `number`, counted from 1; padded with zeros where the file ends in it, `nil` where there is
    /// no such page or the disk cannot read it.
    func page(_ number: Int) -> [UInt8]? {
        guard number >= 1, number <= pageCount else { return nil }
        let bytes: [UInt8]?
        if let log, let offset = logOffsets[number] {
            bytes = try? log.bytes(from: offset, count: pageSize)
        } else {
            bytes = try? file?.bytes(from: (number - 1) * pageSize, count: pageSize)
        }
        guard let bytes, !bytes.isEmpty else { return nil }
        return bytes + [UInt8](repeating: 0, count: pageSize - bytes.count)
    }

    /// Where the pages of complete transactions are in the log: up to the first frame whose checksum is wrong, as
    /// SQLite does it.
    private static func committedPages(of log: RawFile, header: [UInt8], pageSize: Int) throws -> [Int: Int] {
        let magic = header.bigEndian(at: 0)
        guard magic & ~1 == 0x377F_0682 else { return [:] }
        var checksum = LogChecksum(isBigEndian: magic & 1 == 1)
        checksum.add(header[..<24])
        guard checksum.matches(header, at: 24) else { return [:] }
        let salt = header[16..<24]
        var offset = 32
        var committed: [Int: Int] = [:]
        var pending: [Int: Int] = [:]
        while true {
            let frame = try log.bytes(from: offset, count: 24 + pageSize)
            guard frame.count == 24 + pageSize, frame[8..<16].elementsEqual(salt) else {
                break
            }
            checksum.add(frame[..<8])
            checksum.add(frame[24...])
            guard checksum.matches(frame, at: 16) else { break }
            pending[frame.bigEndian(at: 0)] = offset + 24
            if frame.bigEndian(at: 4) != 0 {
                committed.merge(pending) { _, new in new }
                pending = [:]
            }
            offset += 24 + pageSize
        }
        return committed
    }
}

/// The running checksum of a write-ahead log.
private struct LogChecksum {
    let isBigEndian: Bool
    private var first: UInt32 = 0
    private var second: UInt32 = 0

    init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

    /// Adds `bytes`, a multiple of 8.
    mutating func add(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { buffer in
            for offset in stride(from: 0, to: buffer.count - 7, by: 8) {
                first &+= word(buffer, offset) &+ second
                second &+= word(buffer, offset + 4) &+ first
            }
        }
    }

    /// Whether `bytes` say so from `offset` on; always with the most significant byte first.
    func matches(_ bytes: [UInt8], at offset: Int) -> Bool {
        bytes.bigEndian(at: offset) == Int(first) && bytes.bigEndian(at: offset + 4) == Int(second)
    }

    private func word(_ buffer: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        let word = buffer.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
    }
}
