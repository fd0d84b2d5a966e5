import SyncCore

/// A parsed WAL file: the pages that its transactions wrote, and the damage in it.
///
/// The checksum of each frame continues that of the previous one, beginning with the header. SQLite reads up to the
/// first frame that does not match and silently ignores the rest, because a transaction that was interrupted by a power
/// cut looks like this. However, a transaction begins only after the previous one was synced. So if two commits follow
/// the mismatch, the first of them was acknowledged, and the mismatch is damage.
package struct WriteAheadLog {
    /// A place in the WAL after which there are commits that SQLite would ignore.
    struct Damage: Equatable {
        /// The offset in the file of the damaged header or frame.
        var offset: Int
        /// The number of commits from that place on, the one in the damaged frame included.
        var commitCount: Int
    }

    /// The offset in the file of each page's content, as SQLite reads the WAL.
    package private(set) var committed: [Int: Int] = [:]
    /// The offsets of the frames that SQLite would ignore, in order; empty without damage. Only the row checksums can
    /// verify their content.
    package private(set) var ignored: [Int] = []
    private(set) var damage: Damage?

    static let headerByteCount = 32
    private static let frameHeaderByteCount = 24

    private let file: RawFile
    private let pageSize: Int
    private let header: [UInt8]

    private var frameByteCount: Int { Self.frameHeaderByteCount + pageSize }
    private var frameCount: Int { max(0, file.byteCount - Self.headerByteCount) / frameByteCount }

    /// Reads the whole WAL.
    package init(_ file: RawFile, pageSize: Int) throws {
        self.file = file
        self.pageSize = pageSize
        header = try file.bytes(from: 0, count: Self.headerByteCount)
        guard header.count == Self.headerByteCount else { return }
        let magic = header.bigEndian(at: 0)
        var checksum = LogChecksum(isBigEndian: magic & 1 == 1)
        checksum.add(header[..<24])
        if magic & ~1 == 0x377F_0682, checksum.matches(header, at: 24) {
            let (end, computed) = try readCommitted(checksum)
            try look(behind: end, computed: computed, salt: Array(header[16..<24]))
        } else if frameCount > 0 {
            // Without a valid header no frame counts, and the byte order of the checksums is unknown.
            let salt = Array(try frame(0)[8..<16])
            for isBigEndian in [false, true] where damage == nil {
                var computed = LogChecksum(isBigEndian: isBigEndian)
                computed.add(header[..<24])
                try look(behind: nil, computed: computed, salt: salt)
            }
        }
    }

    /// The damage for which SQLite would ignore commits of the WAL at `path`; `nil` if there is none, or no WAL.
    ///
    /// Others may write meanwhile. A WAL that is being restarted may look damaged once, but not in two successive
    /// reads.
    static func damage(ofLogAt path: String, pageSize: Int) throws -> Damage? {
        var found: (Damage, [UInt8])?
        while true {
            guard case .file(let identity) = try FileIdentity.look(at: path), identity.byteCount > headerByteCount
            else {
                return nil
            }
            let log: WriteAheadLog
            do {
                log = try WriteAheadLog(RawFile(path: path), pageSize: pageSize)
            } catch {
                // Another process may have removed or shortened the WAL.
                guard case .file(let now) = try FileIdentity.look(at: path) else { return nil }
                if now == identity, now.byteCount >= identity.byteCount { throw error }
                continue
            }
            guard let damage = log.damage else { return nil }
            if let found, found.0.offset == damage.offset, found.1 == log.header { return damage }
            found = (damage, log.header)
        }
    }

    /// The header of the WAL at `path`, which is unique to this WAL; `nil` if it has no commits or does not exist.
    static func nameOfCommitted(at path: String, pageSize: Int) throws -> [UInt8]? {
        guard case .file(let identity) = try FileIdentity.look(at: path), identity.byteCount > headerByteCount else {
            return nil
        }
        do {
            let log = try WriteAheadLog(RawFile(path: path), pageSize: pageSize)
            return log.committed.isEmpty && log.damage == nil ? nil : log.header
        } catch {
            // A process that closed the store may have removed the WAL.
            guard try FileIdentity.look(at: path) != .missing else { return nil }
            throw error
        }
    }

    private func frame(_ number: Int) throws -> [UInt8] {
        try file.bytes(from: offset(of: number), count: frameByteCount)
    }

    private func offset(of number: Int) -> Int { Self.headerByteCount + number * frameByteCount }

    /// Reads the WAL as SQLite does. Returns the number of the first frame that does not match, counted from 0, and the
    /// checksum up to that frame.
    private mutating func readCommitted(_ start: LogChecksum) throws -> (Int, LogChecksum) {
        var checksum = start
        var pending: [Int: Int] = [:]
        for number in 0..<frameCount {
            let frame = try frame(number)
            let isNext = checksum.accepts(frame)
            guard isNext, frame[8..<16].elementsEqual(header[16..<24]) else { return (number, checksum) }
            pending[frame.bigEndian(at: 0)] = offset(of: number) + Self.frameHeaderByteCount
            if frame.bigEndian(at: 4) != 0 {
                committed.merge(pending) { _, new in new }
                pending = [:]
            }
        }
        return (frameCount, checksum)
    }

    /// Returns `true` if the WAL continues after frame `broken`, or after its header, with matching frames. The next
    /// frame continues the checksum that is stored there or, if the stored checksum is damaged, the computed one.
    ///
    /// Frames from before the WAL was restarted, or of a transaction whose process was killed, follow the end of every
    /// WAL and continue neither checksum.
    private mutating func look(behind broken: Int?, computed: LogChecksum, salt: [UInt8]) throws {
        let start = broken ?? 0
        guard start < frameCount else { return }
        var commitCount = 0
        var found: [Int] = []
        var isConfirmed = false
        let isBigEndian = computed.isBigEndian
        var before = [computed, LogChecksum(isBigEndian: isBigEndian, writtenIn: header, at: 24)]
        for number in start..<frameCount {
            let frame = try frame(number)
            let isBroken = number == broken
            let isNext =
                !isBroken && frame[8..<16].elementsEqual(salt)
                && before.contains { checksum in
                    var checksum = checksum
                    return checksum.accepts(frame)
                }
            guard isNext || isBroken else { break }
            before = [LogChecksum(isBigEndian: isBigEndian, writtenIn: frame, at: 16)] + (isBroken ? [computed] : [])
            found.append(offset(of: number))
            isConfirmed = isConfirmed || isNext
            if frame.bigEndian(at: 4) != 0 { commitCount += 1 }
        }
        // Frames are written only after the header was synced, so a power cut does not damage a header that has frames.
        guard isConfirmed, commitCount >= (broken == nil ? 1 : 2) else { return }
        damage = Damage(offset: broken.map { offset(of: $0) } ?? 0, commitCount: commitCount)
        ignored = found
    }
}

/// The running checksum of a WAL.
private struct LogChecksum {
    let isBigEndian: Bool
    private var first: UInt32 = 0
    private var second: UInt32 = 0

    init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

    /// Reads the checksum stored in `bytes`.
    init(isBigEndian: Bool, writtenIn bytes: [UInt8], at offset: Int) {
        self.isBigEndian = isBigEndian
        first = UInt32(bytes.bigEndian(at: offset))
        second = UInt32(bytes.bigEndian(at: offset + 4))
    }

    /// Adds the content of `frame`; returns `true` if its stored checksum matches.
    mutating func accepts(_ frame: [UInt8]) -> Bool {
        add(frame[..<8])
        add(frame[24...])
        return matches(frame, at: 16)
    }

    /// Adds `bytes`, a multiple of 8.
    mutating func add(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { buffer in
            for offset in stride(from: 0, to: buffer.count - 7, by: 8) {
                first &+= word(buffer, offset) &+ second
                second &+= word(buffer, offset + 4) &+ first
            }
        }
    }

    /// Returns `true` if the big-endian checksum stored in `bytes` at `offset` matches.
    func matches(_ bytes: [UInt8], at offset: Int) -> Bool {
        bytes.bigEndian(at: offset) == Int(first) && bytes.bigEndian(at: offset + 4) == Int(second)
    }

    private func word(_ buffer: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        let word = buffer.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
    }
}
