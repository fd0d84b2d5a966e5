import Checksums

/// One document in a store without compare-and-swap: an entry for each replica, joined by whoever reads. Pure.
///
/// The document `KEY` is kept as `KEY/<replica>`. A replica writes its own entry and no other, so that nothing has to
/// be compared; reading is listing `KEY/` and joining all entries, the replica's own too: a local store that was put
/// back from a backup, or copied to another device together with its replica's name, gets back what it has forgotten.
///
/// This stands between the ``Reconciler`` and the store. It turns each effect on the remote into requests, and their
/// results into one event, in which the version names all entries together: a digest of the sorted keys and versions of
/// those that were merged. An entry that cannot be read is left out of it, so it is tried again by every sync.
///
/// An own entry that cannot be read is not overwritten either. It may be half of what a synchronising tool is fetching
/// at this moment, with facts from before a backup was put back, that are nowhere else. The replica then writes
/// `KEY/<replica>+2` and so on.
struct ReplicaEntries<Merge: DocumentMerge> {
    enum Effect {
        /// List the keys that begin with the prefix.
        case list(prefix: String, after: EntryKey?)
        case read([EntryKey])
        /// Write to this key under no precondition.
        case write([UInt8], EntryKey)
        /// Hand this to the reconciler.
        case answer(Reconciler<Merge>.Event)
    }

    enum Event {
        case listed(Result<KeyPage, BackendError>)
        case read(Result<[Result<ReadOutcome, BackendError>], BackendError>)
        case written(Result<WriteOutcome, BackendError>)
    }

    /// An entry that was read, and what it holds: true for ever, since a version names one content.
    struct Known: Sendable {
        var version: EntryVersion
        var content: Merge.Content
    }

    /// So many entries are asked for at once.
    private static var batchCount: Int { 100 }

    private let merge: Merge
    private let key: EntryKey
    private let replica: String
    private var knownVersion: EntryVersion?
    private var listed: [KeyPage.Item] = []
    private var missing: [EntryKey] = []
    /// The versions of the entries that are merged.
    private var merged: [EntryKey: EntryVersion] = [:]
    private var ownKey: EntryKey?
    /// What was read, now or by earlier syncs.
    private(set) var known: [EntryKey: Known]
    private(set) var unreadable: [EntryKey: SyncError.Reason] = [:]

    init(merge: Merge, key: EntryKey, replica: String, known: [EntryKey: Known] = [:]) {
        self.merge = merge
        self.key = key
        self.replica = replica
        self.known = known
    }

    private var prefix: String { key.text + "/" }

    /// The requests for what the reconciler asks of the remote.
    mutating func begin(_ effect: Reconciler<Merge>.Effect) -> Effect {
        switch effect {
        case .readRemote(let version):
            knownVersion = version
            listed = []
            return .list(prefix: prefix, after: nil)
        case .writeRemote(let bytes, _):
            do throws(BackendError) {
                let own = try freeOwnKey()
                ownKey = own
                return .write(bytes, own)
            } catch {
                return .answer(.remoteWritten(.failure(error)))
            }
        case .readLocal, .writeLocal, .pause, .finish:
            preconditionFailure("no effect on the remote")
        }
    }

    mutating func handle(_ event: Event) -> Effect {
        switch event {
        case .listed(.success(let page)):
            listed += page.items.filter { isEntry($0.key) }
            return page.next.map { .list(prefix: prefix, after: $0) } ?? compare()
        case .read(.success(let outcomes)):
            return take(outcomes)
        case .listed(.failure(let error)), .read(.failure(let error)):
            return .answer(.remoteRead(.failure(error)))
        case .written(.success(.written(let version))):
            guard let ownKey else { preconditionFailure("nothing was written") }
            merged[ownKey] = version
            known[ownKey] = nil
            return .answer(.remoteWritten(.success(.written(versionOfAll ?? version))))
        case .written(.success(.conflict)), .written(.success(.deleted)):
            let error = BackendError(
                .other, operation: .write, key: ownKey,
                message: "it answered a write without a precondition with a conflict")
            return .answer(.remoteWritten(.failure(error)))
        case .written(.failure(let error)):
            return .answer(.remoteWritten(.failure(error)))
        }
    }
}

extension ReplicaEntries {
    /// Entries lie directly below the document's key; what is deeper belongs to another document.
    private func isEntry(_ candidate: EntryKey) -> Bool {
        candidate.hasPrefix(prefix) && !candidate.text.utf8.dropFirst(prefix.utf8.count).contains(UInt8(ascii: "/"))
    }

    private mutating func compare() -> Effect {
        merged = Dictionary(listed.map { ($0.key, $0.version) }) { _, last in last }
        unreadable = [:]
        if let knownVersion, knownVersion == versionOfAll { return .answer(.remoteRead(.success(.unchanged))) }
        known = known.filter { merged[$0.key] == $0.value.version }
        missing = merged.keys.filter { known[$0] == nil }.sorted()
        return readOn()
    }

    private func readOn() -> Effect {
        guard missing.isEmpty else { return .read(Array(missing.prefix(Self.batchCount))) }
        let contents = merged.keys.sorted().compactMap { known[$0]?.content }
        let union = contents.reduce(merge.empty) { merge.join($0, $1).content }
        return .answer(.remoteJoined(union, versionOfAll))
    }

    private mutating func take(_ outcomes: [Result<ReadOutcome, BackendError>]) -> Effect {
        guard outcomes.count == min(missing.count, Self.batchCount) else {
            let error = BackendError(
                .other, operation: .read, message: "it answered \(outcomes.count) reads, and not all that were asked")
            return .answer(.remoteRead(.failure(error)))
        }
        for (key, outcome) in zip(missing, outcomes) {
            merged[key] = nil
            switch outcome {
            case .success(.found(let entry)):
                do {
                    known[key] = Known(version: entry.version, content: try merge.open(entry.value).content)
                    merged[key] = entry.version
                } catch {
                    unreadable[key] = .document(error)
                }
            case .success(.absent):
                // Gone since it was listed.
                break
            case .success(.unchanged):
                let error = BackendError(
                    .other, operation: .read, key: key, message: "it answered \"unchanged\" to an unconditional read")
                return .answer(.remoteRead(.failure(error)))
            case .failure(let error) where error.disposition == .permanent && error.kind != .cancelled:
                unreadable[key] = .backend(error)
            case .failure(let error):
                // The store is away, not the entry damaged.
                return .answer(.remoteRead(.failure(error)))
            }
        }
        missing.removeFirst(min(outcomes.count, missing.count))
        return readOn()
    }

    /// The first of the replica's own keys that is not in the way of an entry that cannot be read.
    private func freeOwnKey() throws(BackendError) -> EntryKey {
        var own = try EntryKey(prefix + replica)
        var number = 1
        while unreadable[own] != nil {
            number += 1
            own = try EntryKey("\(prefix)\(replica)+\(number)")
        }
        return own
    }

    /// Names the merged entries at their versions; `nil` for none. 128 bits of two digests that share no seed.
    private var versionOfAll: EntryVersion? {
        guard !merged.isEmpty else { return nil }
        var bytes: [UInt8] = []
        for key in merged.keys.sorted() {
            guard let version = merged[key]?.bytes else { continue }
            for part in [Array(key.text.utf8), version] {
                withUnsafeBytes(of: UInt32(clamping: part.count).bigEndian) { bytes.append(contentsOf: $0) }
                bytes += part
            }
        }
        let halves = [XXHash64.digest(of: bytes), XXHash64.digest(of: bytes, seed: 0x9E37_79B9_7F4A_7C15)]
        return EntryVersion(bytes: halves.flatMap { half in withUnsafeBytes(of: half.bigEndian) { Array($0) } })
    }
}
