/// The last known state of each remote of a local document: its version and a digest of its content.
///
/// Checkpoints are stored in the local section of the document, in one atomic value with the content they describe. A
/// local copy that is rolled back therefore rolls its checkpoints back too. If they were stored separately, a restored
/// backup would assume that its remote has content that was never sent.
struct Checkpoints: Equatable {
    /// The state of one remote.
    struct Checkpoint: Equatable {
        var remoteVersion: EntryVersion
        /// The digest of the content of the remote at that version.
        var contentDigest: [UInt8]
    }

    private var byRemote: [String: Checkpoint] = [:]

    private static let format: UInt8 = 1

    subscript(remote: String) -> Checkpoint? {
        get { byRemote[remote] }
        set { byRemote[remote] = newValue }
    }

    init() {}

    /// Reads a local section. One that cannot be read is dropped, which costs one round trip and nothing else.
    init(section: [UInt8]) {
        var reader = SectionReader(bytes: section)
        guard reader.byte() == Self.format, let count = reader.byte() else { return }
        var checkpoints: [String: Checkpoint] = [:]
        for _ in 0..<count {
            guard let remote = reader.part(), let name = String(validating: remote, as: UTF8.self),
                let version = reader.part(), (1...64).contains(version.count), let digest = reader.part()
            else { return }
            checkpoints[name] = Checkpoint(
                remoteVersion: EntryVersion(bytes: Array(version)), contentDigest: Array(digest))
        }
        byRemote = checkpoints
    }

    /// The encoded local section: format, count, then for each remote in ascending order its name, version and digest,
    /// each preceded by a length of two bytes.
    var section: [UInt8] {
        guard !byRemote.isEmpty else { return [] }
        // The count is one byte. More than 255 remotes would be a mistake; the first ones are kept.
        let remotes = byRemote.keys.sorted().prefix(255)
        var bytes: [UInt8] = [Self.format, UInt8(remotes.count)]
        for remote in remotes {
            guard let checkpoint = byRemote[remote] else { continue }
            for part in [Array(remote.utf8), checkpoint.remoteVersion.bytes, checkpoint.contentDigest] {
                let count = UInt16(clamping: part.count)
                bytes += [UInt8(count >> 8), UInt8(count & 0xFF)]
                bytes += part.prefix(Int(count))
            }
        }
        return bytes
    }
}

private struct SectionReader {
    private var rest: ArraySlice<UInt8>

    init(bytes: [UInt8]) {
        rest = bytes[...]
    }

    mutating func byte() -> UInt8? {
        rest.popFirst()
    }

    mutating func part() -> ArraySlice<UInt8>? {
        guard let high = rest.popFirst(), let low = rest.popFirst() else { return nil }
        let count = Int(high) << 8 | Int(low)
        guard count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }
}
