import SQLiteStorage
import SyncCore

/// The pages of a database after its last commit, from the WAL if it has them, otherwise from the file.
///
/// It follows SQLite's published file format and does not require any part of the file to be intact.
///
/// The frames after the damage in a damaged WAL are used too. They also appear as additional pages after all others,
/// because their page numbers may be damaged.
final class PageSource {
    let pageSize: Int
    /// The number of pages, including those that only the WAL has.
    let pageCount: Int
    let path: String
    /// True if the header identifies a store.
    let isStore: Bool
    private let file: RawFile?
    private let log: RawFile?
    /// The offset in the WAL of each page's content.
    private let logOffsets: [Int: Int]

    init(path: String) throws {
        self.path = path
        // If the file is missing, the WAL may have the whole content.
        file = try FileIdentity.look(at: path) == .missing ? nil : RawFile(path: path)
        let logPath = FileIdentity.resolved(path) + "-wal"
        let header = try file?.bytes(from: 0, count: 100) ?? []
        // If the database states that it has no WAL, an existing one belongs to another database (see
        // ``StoreFile/checkLog()``).
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
        // Stores created by this software always have this page size, but a converted database may have another one.
        let isOurs = claims.contains(StoreSchema.pageSize) || header.count < 100
        let claimed = claims.first { $0 >= 512 && $0 <= 32_768 && $0 & ($0 - 1) == 0 }
        pageSize = isOurs ? StoreSchema.pageSize : claimed ?? StoreSchema.pageSize
        var count = ((file?.byteCount ?? 0) + pageSize - 1) / pageSize
        var offsets: [Int: Int] = [:]
        if let log {
            let content = try WriteAheadLog(log, pageSize: pageSize)
            offsets = content.committed
            count = max(count, offsets.keys.max() ?? 0)
            for frame in content.ignored {
                let page = try log.bytes(from: frame, count: 4).bigEndian(at: 0)
                // A transaction extends the file by at most as many pages as it has frames.
                if (1...(count + content.ignored.count)).contains(page) { offsets[page] = frame + 24 }
            }
            count = max(count, offsets.keys.max() ?? 0)
            for frame in content.ignored {
                count += 1
                offsets[count] = frame + 24
            }
        }
        logOffsets = offsets
        pageCount = count
    }

    /// The content of page `number`, counted from 1, padded with zeros at the end of the file; `nil` if the page does
    /// not exist or the disk cannot read it.
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
