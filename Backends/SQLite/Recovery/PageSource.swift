import SyncCore

/// The pages of a database as its last commit left them: from the write-ahead log where it has them, else from the
/// file. Follows SQLite's published file format, and needs nothing of the file to be whole.
///
/// What a damaged log has behind the damage counts as well. Its frames are also there as pages of their own, behind all
/// others, since the number of a page may be what is damaged.
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
    private let logOffsets: [Int: Int]

    init(path: String) throws {
        self.path = path
        // Without the file the log may have it all.
        file = try FileIdentity.look(at: path) == .missing ? nil : RawFile(path: path)
        let logPath = FileIdentity.resolved(path) + "-wal"
        let header = try file?.bytes(from: 0, count: 100) ?? []
        // The log beside a database that has none is another's, see ``StoreFile/checkLog()``.
        if !StoreFile.hasNoLog(header: header), case .file(let identity) = try FileIdentity.look(at: logPath),
            identity.byteCount >= 32
        {
            log = try RawFile(path: logPath)
        } else {
            log = nil
        }
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
        var offsets: [Int: Int] = [:]
        if let log {
            let content = try WriteAheadLog(log, pageSize: pageSize)
            offsets = content.committed
            count = max(count, offsets.keys.max() ?? 0)
            for frame in content.forgotten {
                let page = try log.bytes(from: frame, count: 4).bigEndian(at: 0)
                // No transaction makes a file longer than by the frames that it has.
                if (1...(count + content.forgotten.count)).contains(page) { offsets[page] = frame + 24 }
            }
            count = max(count, offsets.keys.max() ?? 0)
            for frame in content.forgotten {
                count += 1
                offsets[count] = frame + 24
            }
        }
        logOffsets = offsets
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
}
