import SyncCore

/// A write-ahead log as it lies in its file: which pages its transactions left, and whether all of them can be read.
///
/// Each frame's checksum continues the one before, from the header's on. SQLite reads up to the first frame that does
/// not match and forgets the rest without a word, since that is how a transaction looks that a power cut ended. But a
/// transaction is begun only when the one before is on the disk: so where two commits stand behind the place, the first
/// of them was acknowledged, and it is damage.
struct WriteAheadLog {
    /// A place behind which commits stand that SQLite would forget.
    struct Damage: Equatable {
        /// Where in the file the header or frame begins that is not as it was written.
        var offset: Int
        /// How many commits are behind it, its own among them.
        var commitCount: Int
    }

    /// Where in the file the content of a page begins, as SQLite reads it.
    private(set) var committed: [Int: Int] = [:]
    /// Where the frames begin that SQLite would forget, in their order; empty without damage. Nothing vouches for them
    /// but the seals of the rows in them.
    private(set) var forgotten: [Int] = []
    private(set) var damage: Damage?

    static let headerByteCount = 32
    private static let frameHeaderByteCount = 24

    private let file: RawFile
    private let pageSize: Int
    private let header: [UInt8]

    private var frameByteCount: Int { Self.frameHeaderByteCount + pageSize }
    private var frameCount: Int { max(0, file.byteCount - Self.headerByteCount) / frameByteCount }

    /// Reads all of the log.
    init(_ file: RawFile, pageSize: Int) throws {
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
            // Nothing in the log counts then, and the header does not say how to read it.
            let salt = Array(try frame(0)[8..<16])
            for isBigEndian in [false, true] where damage == nil {
                var computed = LogChecksum(isBigEndian: isBigEndian)
                computed.add(header[..<24])
                try look(behind: nil, computed: computed, salt: salt)
            }
        }
    }

    /// Whether SQLite would forget commits of the log at `path`, `nil` where it would not, or where there is no log.
    ///
    /// Others may write meanwhile: what looks like damage while the log is begun anew does not look so twice.
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
                // Whoever closed or wrote last may have removed or shortened it meanwhile.
                guard case .file(let now) = try FileIdentity.look(at: path) else { return nil }
                if now == identity, now.byteCount >= identity.byteCount { throw error }
                continue
            }
            guard let damage = log.damage else { return nil }
            if let found, found.0.offset == damage.offset, found.1 == log.header { return damage }
            found = (damage, log.header)
        }
    }

    /// The header of the log at `path`, which no other log shares; `nil` for a log without commits, or for none.
    static func nameOfCommitted(at path: String, pageSize: Int) throws -> [UInt8]? {
        guard case .file(let identity) = try FileIdentity.look(at: path), identity.byteCount > headerByteCount else {
            return nil
        }
        do {
            let log = try WriteAheadLog(RawFile(path: path), pageSize: pageSize)
            return log.committed.isEmpty && log.damage == nil ? nil : log.header
        } catch {
            // A process that closed the store may have removed it meanwhile.
            guard try FileIdentity.look(at: path) != .missing else { return nil }
            throw error
        }
    }

    private func frame(_ number: Int) throws -> [UInt8] {
        try file.bytes(from: offset(of: number), count: frameByteCount)
    }

    private func offset(of number: Int) -> Int { Self.headerByteCount + number * frameByteCount }

    /// Reads as SQLite does; answers the number of the first frame that does not match, counted from 0, and the
    /// checksum of all up to it.
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

    /// Looks whether the log goes on behind frame `broken`, or behind its header: with frames that continue it. The
    /// next one continues what is written there, or, where that is what is wrong, what is computed.
    ///
    /// What was there before the log was begun anew, or before a process died in the middle of a transaction, lies
    /// behind the end of every log, and continues neither.
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
        // No power cut makes a header wrong that frames were written behind.
        guard isConfirmed, commitCount >= (broken == nil ? 1 : 2) else { return }
        damage = Damage(offset: broken.map { offset(of: $0) } ?? 0, commitCount: commitCount)
        forgotten = found
    }
}

/// The running checksum of a write-ahead log.
private struct LogChecksum {
    let isBigEndian: Bool
    private var first: UInt32 = 0
    private var second: UInt32 = 0

    init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

    /// The checksum that is written in `bytes`.
    init(isBigEndian: Bool, writtenIn bytes: [UInt8], at offset: Int) {
        self.isBigEndian = isBigEndian
        first = UInt32(bytes.bigEndian(at: offset))
        second = UInt32(bytes.bigEndian(at: offset + 4))
    }

    /// Adds what `frame` says; whether its checksum is that.
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

    /// Whether `bytes` say so from `offset` on; always with the most significant byte first.
    func matches(_ bytes: [UInt8], at offset: Int) -> Bool {
        bytes.bigEndian(at: offset) == Int(first) && bytes.bigEndian(at: offset + 4) == Int(second)
    }

    private func word(_ buffer: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        let word = buffer.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
    }
}
