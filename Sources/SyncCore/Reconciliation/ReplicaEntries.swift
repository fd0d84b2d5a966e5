import Checksums

/// A document in a store without compare-and-swap: one entry per replica, joined when it is read. Pure.
///
/// The document `KEY` is stored as `KEY/<replica>`. A replica writes only its own entry, so no compare-and-swap is
/// needed. Reading means listing `KEY/` and joining all entries, including the replica's own: a local store that was
/// restored from a backup, or copied to another device together with its replica name, recovers what it has lost.
///
/// This state machine sits between the ``Reconciler`` and the store. It turns each effect on the remote into requests,
/// and their results into one event. The version in that event identifies all entries together: it is a digest of the
/// sorted keys and versions of the merged entries. An unreadable entry is not part of it, so each sync tries it again.
///
/// If the replica's own entry is unreadable, it is not overwritten. It may be partly copied by a file-sync tool and
/// contain facts from before a restored backup that exist nowhere else. The replica then writes `KEY/<replica>+2`, and
/// so on.
struct ReplicaEntries<Merge: DocumentMerge> {
    enum Effect {
        /// List the keys that begin with the prefix.
        case list(prefix: String, after: EntryKey?)
        case read([EntryKey])
        /// Write to this key without a precondition.
        case write([UInt8], EntryKey)
        /// Report this event to the reconciler.
        case answer(Reconciler<Merge>.Event)
    }

    enum Event {
        case listed(Result<KeyPage, BackendError>)
        case read(Result<[Result<ReadOutcome, BackendError>], BackendError>)
        case written(Result<WriteOutcome, BackendError>)
    }

    /// An entry that was read, and its content. It stays valid for ever, because a version identifies one content.
    struct Known: Sendable {
        var version: EntryVersion
        var content: Merge.Content
    }

    /// The number of entries in one read request.
    private static var batchCount: Int { 100 }

    private let merge: Merge
    private let key: EntryKey
    private let replica: String
    private var knownVersion: EntryVersion?
    private var listed: [KeyPage.Item] = []
    private var missing: [EntryKey] = []
    /// The versions of the merged entries.
    private var merged: [EntryKey: EntryVersion] = [:]
    private var ownKey: EntryKey?
    /// The entries read by this and earlier syncs.
    private(set) var known: [EntryKey: Known]
    private(set) var unreadable: [EntryKey: SyncError.Reason] = [:]

    init(merge: Merge, key: EntryKey, replica: String, known: [EntryKey: Known] = [:]) {
        self.merge = merge
        self.key = key
        self.replica = replica
        self.known = known
    }

    private var prefix: String { key.text + "/" }

    /// Starts the requests for an effect of the reconciler on the remote.
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
            preconditionFailure("this effect does not concern the remote")
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
                message: "the backend reported a conflict for a write without a precondition")
            return .answer(.remoteWritten(.failure(error)))
        case .written(.failure(let error)):
            return .answer(.remoteWritten(.failure(error)))
        }
    }
}

extension ReplicaEntries {
    /// Entries lie directly below the document's key; deeper keys belong to other documents.
    private func isEntry(_ candidate: EntryKey) -> Bool {
        candidate.hasPrefix(prefix) && !candidate.text.utf8.dropFirst(prefix.utf8.count).contains(UInt8(ascii: "/"))
    }

    private mutating func compare() -> Effect {
        merged = Dictionary(listed.map { ($0.key, $0.version) }) { _, last in last }
        unreadable = [:]
        if let knownVersion, knownVersion == versionOfAll { return .answer(.remoteRead(.success(.unchanged))) }
        known = known.filter { merged[$0.key] == $0.value.version }
        missing = merged.keys.filter { known[$0] == nil }.sorted()
        return readNextBatch()
    }

    private func readNextBatch() -> Effect {
        guard missing.isEmpty else { return .read(Array(missing.prefix(Self.batchCount))) }
        let contents = merged.keys.sorted().compactMap { known[$0]?.content }
        let union = contents.reduce(merge.empty) { merge.join($0, $1).content }
        return .answer(.remoteJoined(union, versionOfAll))
    }

    private mutating func take(_ outcomes: [Result<ReadOutcome, BackendError>]) -> Effect {
        guard outcomes.count == min(missing.count, Self.batchCount) else {
            let error = BackendError(
                .other, operation: .read, message: "the backend answered \(outcomes.count) reads of a larger batch")
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
                // Deleted after it was listed.
                break
            case .success(.unchanged):
                let error = BackendError(
                    .other, operation: .read, key: key,
                    message: "the backend answered \"unchanged\" to an unconditional read")
                return .answer(.remoteRead(.failure(error)))
            case .failure(let error) where error.disposition == .permanent && error.kind != .cancelled:
                unreadable[key] = .backend(error)
            case .failure(let error):
                // The store is unavailable; the entry is not damaged.
                return .answer(.remoteRead(.failure(error)))
            }
        }
        missing.removeFirst(min(outcomes.count, missing.count))
        return readNextBatch()
    }

    /// The first key of this replica that does not hold an unreadable entry.
    private func freeOwnKey() throws(BackendError) -> EntryKey {
        var own = try EntryKey(prefix + replica)
        var number = 1
        while unreadable[own] != nil {
            number += 1
            own = try EntryKey("\(prefix)\(replica)+\(number)")
        }
        return own
    }

    /// Identifies the merged entries and their versions with the 128 bits of two digests of different seeds; `nil` if
    /// there are none.
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
