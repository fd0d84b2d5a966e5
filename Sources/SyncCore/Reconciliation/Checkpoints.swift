/// What one local document knows of its remotes: which version each held last, and which content that was.
///
/// Stored in the document's local section, in one atomic value with the content it speaks of: a local copy that is
/// rolled back takes its checkpoints back with it. Kept apart, a restored backup would believe that its remote has what
/// it never sent.
struct Checkpoints: Equatable {
    /// What a remote held.
    struct Checkpoint: Equatable {
        var remoteVersion: EntryVersion
        /// The digest of the content that the remote held at that version.
        var contentDigest: [UInt8]
    }

    private var byRemote: [String: Checkpoint] = [:]

    private static let format: UInt8 = 1

    subscript(remote: String) -> Checkpoint? {
        get { byRemote[remote] }
        set { byRemote[remote] = newValue }
    }

    init() {}

    /// Reads a local section. One that cannot be read is dropped: that costs a round trip and nothing else.
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

    /// The local section: format, count, then for each remote in ascending order its name, version and digest, each
    /// behind a length of two bytes.
    var section: [UInt8] {
        guard !byRemote.isEmpty else { return [] }
        // More remotes than a byte counts would be a mistake; the first ones are kept.
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
