/// Decides, step by step, how one document becomes the same on two sides. Pure: the engine performs the effects.
///
/// The engine performs the effect that ``start(from:)`` returns, passes the result to ``handle(_:)``, performs the
/// effect that this returns, and so on until ``Effect/finish(_:)``. Requests to the remote:
///
/// | case | requests |
/// |---|---|
/// | no side changed; only the remote changed; only the local side changed | 1 |
/// | both sides changed; first contact with a non-empty local document | 2 |
///
/// The reconciler never deletes and never sends the local section to the remote. It never writes without a
/// precondition, with one exception: a remote that can check none (``RemoteForm/entryPerReplica``) is written with
/// ``Precondition/any``, and ``ReplicaEntries`` turns that into a write of the replica's own entry. The reconciler
/// writes there only after it has learned in the same sync what the remote holds, because a local copy that was
/// restored from a backup may know less than the entry that it wrote earlier.
struct Reconciler<Merge: DocumentMerge> {
    enum Effect {
        case readLocal
        case readRemote(unless: EntryVersion?)
        case writeRemote([UInt8], Precondition)
        case writeLocal([UInt8], Precondition)
        /// Wait for a random time that grows with the attempt, then report ``Event/resumed``.
        case pause(attempt: Int)
        case finish(Result<DocumentReport<Merge.Content>, SyncError>)
    }

    enum Event {
        case localRead(Result<ReadOutcome, BackendError>)
        case remoteRead(Result<ReadOutcome, BackendError>)
        /// The union of all entries of a remote, and a version that identifies all of them; `nil` if there are none.
        case remoteJoined(Merge.Content, EntryVersion?)
        case remoteWritten(Result<WriteOutcome, BackendError>)
        case localWritten(Result<WriteOutcome, BackendError>)
        case resumed
    }

    /// The layout of a document on the remote.
    enum RemoteForm {
        /// One entry, which all replicas write under preconditions.
        case oneEntry
        /// One entry per replica, which only that replica writes.
        case entryPerReplica
    }

    private struct Side {
        var version: EntryVersion?
        var content: Merge.Content
    }

    private enum Waiting {
        case nothing
        /// A push of this content was sent.
        case push(Merge.Content, Precondition)
        /// This content was sent to the local store.
        case save(Merge.Content, Checkpoints, Precondition)
    }

    private let merge: Merge
    private let remoteID: String
    private let form: RemoteForm
    private let isDryRun: Bool
    private let maximumAttempts: Int

    private var local: Side
    private var checkpoints = Checkpoints()
    /// `nil` until the remote has reported its content.
    private var remote: Side?
    private var waiting = Waiting.nothing
    private var attempt = 0
    /// The remote's state as an earlier sync saw it.
    private let seen: Checkpoints.Checkpoint?
    /// True if a push was sent whose outcome is unknown.
    private var isPushUnsettled = false
    /// True if a save was sent whose outcome is unknown.
    private var isSaveUnsettled = false
    private var pushFailure: BackendError?
    private var report: DocumentReport<Merge.Content>

    /// - Parameter seen: The version of the remote that was seen last, and a digest of its content then. It avoids
    ///   reading content that another writer stored again unchanged. It is not stored durably, so it may be newer than
    ///   the checkpoint; it is used only if both have the same content.
    init(
        merge: Merge, remoteID: String, form: RemoteForm = .oneEntry, seen: Checkpoints.Checkpoint? = nil,
        isDryRun: Bool = false, maximumAttempts: Int = 10
    ) {
        self.merge = merge
        self.remoteID = remoteID
        self.form = form
        self.seen = seen
        self.isDryRun = isDryRun
        self.maximumAttempts = maximumAttempts
        local = Side(version: nil, content: merge.empty)
        report = DocumentReport(content: merge.empty)
    }

    /// Returns the first effect.
    ///
    /// - Parameter held: The local document, if the caller has just read it.
    mutating func start(from held: HeldDocument<Merge.Content>? = nil) -> Effect {
        guard let held else { return .readLocal }
        take(local: held)
        return begin()
    }

    /// The latest known state of the remote, for the next sync.
    var lastSeen: Checkpoints.Checkpoint? {
        guard let remote, let version = remote.version else { return seen }
        return Checkpoints.Checkpoint(remoteVersion: version, contentDigest: merge.digest(of: remote.content))
    }

    mutating func handle(_ event: Event) -> Effect {
        do {
            switch event {
            case .localRead(let result): return try begin(with: result)
            case .remoteRead(let result): return try remoteAnswered(result)
            case .remoteJoined(let content, let version):
                arrive(Side(version: version, content: content))
                return settle()
            case .remoteWritten(let result): return try pushAnswered(result)
            case .localWritten(let result): return try saveAnswered(result)
            case .resumed: return resume()
            }
        } catch {
            return .finish(.failure(error))
        }
    }
}

extension Reconciler {
    private mutating func begin(with result: Result<ReadOutcome, BackendError>) throws(SyncError) -> Effect {
        switch result {
        case .success(.found(let entry)): try take(local: entry)
        case .success(.absent), .success(.unchanged): break
        case .failure(let error): throw SyncError(.backend(error), side: .local)
        }
        return begin()
    }

    private mutating func begin() -> Effect {
        guard let known else { return .readRemote(unless: nil) }
        if isDirty, !isDryRun, form == .oneEntry {
            return push(local.content, if: .matches(known.remoteVersion))
        }
        return .readRemote(unless: known.remoteVersion)
    }

    /// The checkpoint, with the version from ``seen`` if that has the same content.
    private var known: Checkpoints.Checkpoint? {
        guard let stored = checkpoints[remoteID] else { return nil }
        guard let seen, seen.contentDigest == stored.contentDigest else { return stored }
        return seen
    }

    /// True if the local content differs from the content of the remote at the checkpoint.
    private var isDirty: Bool { checkpoints[remoteID]?.contentDigest != merge.digest(of: local.content) }

    private mutating func take(local entry: Entry) throws(SyncError) {
        take(local: HeldDocument(version: entry.version, document: try open(entry.value, on: .local)))
    }

    private mutating func take(local held: HeldDocument<Merge.Content>) {
        local = Side(version: held.version, content: held.document.content)
        checkpoints = Checkpoints(section: held.document.localSection)
        // Content from a save of unknown outcome did not originate on this side.
        if !isSaveUnsettled { report.localContent = held.document.content }
    }

    private mutating func take(remote entry: Entry?) throws(SyncError) {
        guard let entry else { return arrive(Side(version: nil, content: merge.empty)) }
        arrive(Side(version: entry.version, content: try open(entry.value, on: .remote).content))
    }

    private mutating func arrive(_ side: Side) {
        remote = side
        report.arrivedContent = report.arrivedContent.map { merge.join($0, side.content).content } ?? side.content
    }

    private func open(_ bytes: [UInt8], on side: SyncError.Side) throws(SyncError) -> OpenDocument<Merge.Content> {
        do { return try merge.open(bytes) } catch { throw SyncError(.document(error), side: side) }
    }

    private mutating func remoteAnswered(_ result: Result<ReadOutcome, BackendError>) throws(SyncError) -> Effect {
        switch result {
        case .success(.unchanged):
            // For a remote of one entry, only a dry run, or a sync whose push was rejected, reads while local facts are
            // unsent.
            if isDirty, form == .entryPerReplica, !isDryRun, pushFailure == nil {
                return push(local.content, if: .any)
            }
            report.remoteGains = isDirty
            return finishUnchanged()
        case .success(.found(let entry)): try take(remote: entry)
        case .success(.absent): try take(remote: nil)
        case .failure(let error): throw SyncError(.backend(pushFailure ?? error), side: .remote)
        }
        return settle()
    }

    /// Finishes a sync for which the remote had nothing new.
    private mutating func finishUnchanged() -> Effect {
        // The version that was seen can be newer than the stored one after a dry run, or after a sync whose save
        // failed.
        guard form == .entryPerReplica, !isDryRun, !isDirty, let known, known != checkpoints[remoteID] else {
            return finish(with: local.content)
        }
        var checkpoints = checkpoints
        checkpoints[remoteID] = known
        return save(local.content, checkpoints, if: local.version.map(Precondition.matches) ?? .absent)
    }

    /// Joins both sides and writes to the side that lacks something. The remote comes first, so that a single local
    /// write stores both the new content and the checkpoint.
    private mutating func settle() -> Effect {
        guard let remote else { return .readRemote(unless: nil) }
        let joined = merge.join(local.content, remote.content)
        report.localGains = report.localGains || joined.leftLacks
        if isDryRun {
            report.remoteGains = joined.rightLacks
            return finish(with: joined.content)
        }
        if joined.rightLacks, pushFailure == nil {
            return push(joined.content, if: precondition(for: remote.version))
        }
        var checkpoints = checkpoints
        if let version = remote.version {
            checkpoints[remoteID] = Checkpoints.Checkpoint(
                remoteVersion: version, contentDigest: merge.digest(of: remote.content))
        }
        // If the remote has a new version of the same content, for example because it stored a checkpoint of its own,
        // it is not worth a write: two stores that are each other's remote would record each other's checkpoints for
        // ever. Entries of replicas hold no checkpoints. There the write pays, because later processes need not read
        // all entries again.
        let isNews =
            switch form {
            case .oneEntry: checkpoints[remoteID]?.contentDigest != self.checkpoints[remoteID]?.contentDigest
            case .entryPerReplica: checkpoints[remoteID] != self.checkpoints[remoteID]
            }
        guard joined.leftLacks || isNews else { return finish(with: joined.content) }
        return save(joined.content, checkpoints, if: local.version.map(Precondition.matches) ?? .absent)
    }

    private func precondition(for version: EntryVersion?) -> Precondition {
        switch form {
        case .oneEntry: version.map(Precondition.matches) ?? .absent
        case .entryPerReplica: .any
        }
    }

    private mutating func push(_ content: Merge.Content, if precondition: Precondition) -> Effect {
        waiting = .push(content, precondition)
        return .writeRemote(merge.close(OpenDocument(content: content)), precondition)
    }

    private mutating func save(_ content: Merge.Content, _ checkpoints: Checkpoints, if precondition: Precondition)
        -> Effect
    {
        waiting = .save(content, checkpoints, precondition)
        return .writeLocal(document(content, checkpoints), precondition)
    }

    private func document(_ content: Merge.Content, _ checkpoints: Checkpoints) -> [UInt8] {
        merge.close(OpenDocument(content: content, localSection: checkpoints.section))
    }

    private mutating func pushAnswered(_ result: Result<WriteOutcome, BackendError>) throws(SyncError) -> Effect {
        guard case .push(let content, _) = waiting else { preconditionFailure("no push was sent") }
        switch result {
        case .success(.written(let version)):
            waiting = .nothing
            report.remoteGains = true
            remote = Side(version: version, content: content)
            return settle()
        case .success(.conflict(let current)):
            waiting = .nothing
            try take(remote: current)
            if isPushUnsettled, let remote, !merge.join(content, remote.content).rightLacks {
                // The conflict is with our own write, whose acknowledgement was lost.
                report.remoteGains = true
                return settle()
            }
            report.conflicts += 1
            return try again(.remote)
        case .success(.deleted):
            preconditionFailure("a write reported a deletion")
        case .failure(let error) where error.disposition == .outcomeUnknown && attempt + 1 < maximumAttempts:
            // Repeating is safe: if the write happened, the outcome is a conflict with our own content.
            isPushUnsettled = true
            return try again(.remote)
        case .failure(let error):
            waiting = .nothing
            pushFailure = error
            // The content of the remote is still worth saving: a restore needs no permission to write.
            if remote != nil { return settle() }
            guard error.disposition == .permanent, error.kind != .cancelled else {
                throw SyncError(.backend(error), side: .remote)
            }
            return .readRemote(unless: known?.remoteVersion)
        }
    }

    private mutating func saveAnswered(_ result: Result<WriteOutcome, BackendError>) throws(SyncError) -> Effect {
        guard case .save(let content, let saved, _) = waiting else { preconditionFailure("nothing was saved") }
        switch result {
        case .success(.written(let version)):
            return didSave(content, saved, at: version)
        case .success(.conflict(let current?)) where isSaveUnsettled && current.value == document(content, saved):
            // The conflict is with our own write, whose acknowledgement was lost.
            return didSave(content, saved, at: current.version)
        case .success(.conflict(let current)):
            // Another writer changed the local document, or the local store was wiped: start from its current state.
            waiting = .nothing
            report.conflicts += 1
            local = Side(version: nil, content: merge.empty)
            checkpoints = Checkpoints()
            if let current { try take(local: current) }
            return try again(.local)
        case .success(.deleted):
            preconditionFailure("a write reported a deletion")
        case .failure(let error) where error.disposition == .outcomeUnknown:
            isSaveUnsettled = true
            return try again(.local, after: error)
        case .failure(let error):
            throw SyncError(.backend(error), side: .local)
        }
    }

    private mutating func didSave(_ content: Merge.Content, _ saved: Checkpoints, at version: EntryVersion) -> Effect {
        waiting = .nothing
        local = Side(version: version, content: content)
        checkpoints = saved
        return finish(with: content)
    }

    private mutating func again(_ side: SyncError.Side, after error: BackendError? = nil) throws(SyncError) -> Effect {
        attempt += 1
        guard attempt < maximumAttempts else {
            throw SyncError(error.map { .backend($0) } ?? .contention(attempts: attempt), side: side)
        }
        return .pause(attempt: attempt)
    }

    private mutating func resume() -> Effect {
        switch waiting {
        case .nothing: settle()
        case .push(let content, let precondition): push(content, if: precondition)
        case .save(let content, let checkpoints, let precondition): save(content, checkpoints, if: precondition)
        }
    }

    /// Finishes the sync: the content of the remote is known and stored on the local side.
    private mutating func finish(with content: Merge.Content) -> Effect {
        if let pushFailure {
            return .finish(.failure(SyncError(.backend(pushFailure), side: .remote, hasReceived: true)))
        }
        report.content = content
        report.remoteContent = remote?.content
        report.held = HeldDocument(
            version: local.version,
            document: OpenDocument(content: local.content, localSection: checkpoints.section))
        return .finish(.success(report))
    }
}
