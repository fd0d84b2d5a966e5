/// Decides, step by step, how one document becomes the same on two sides. Pure: it performs nothing, the engine does.
///
/// The engine performs the effect that ``start()`` returns, hands the result to ``handle(_:)``, performs what that
/// returns, and so on until ``Effect/finish(_:)``. Requests to the remote:
///
/// | case | requests |
/// |---|---|
/// | nothing changed; remote changed; local changed and remote not | 1 |
/// | both changed; first contact with a non-empty local document | 2 |
///
/// It never deletes, never sends the local section to the remote, and never writes without a precondition, but for one
/// place: to a remote that can honour none (``RemoteForm/entryPerReplica``) it writes with ``Precondition/any``, and
/// ``ReplicaEntries`` turns that into a write of the replica's own entry. There it never writes before it was told in
/// the same sync what the remote holds, because a local copy that was put back from a backup may know less than the
/// entry that it wrote itself.
struct Reconciler<Merge: DocumentMerge> {
    enum Effect {
        case readLocal
        case readRemote(unless: EntryVersion?)
        case writeRemote([UInt8], Precondition)
        case writeLocal([UInt8], Precondition)
        /// Wait a random while, the longer the higher the attempt, then report ``Event/resumed``.
        case pause(attempt: Int)
        case finish(Result<DocumentReport<Merge.Content>, SyncError>)
    }

    enum Event {
        case localRead(Result<ReadOutcome, BackendError>)
        case remoteRead(Result<ReadOutcome, BackendError>)
        /// What all entries of a remote hold together, at a version that names all of them; `nil` for no entries.
        case remoteJoined(Merge.Content, EntryVersion?)
        case remoteWritten(Result<WriteOutcome, BackendError>)
        case localWritten(Result<WriteOutcome, BackendError>)
        case resumed
    }

    /// How the remote keeps a document.
    enum RemoteForm {
        /// One entry, which all write under preconditions.
        case oneEntry
        /// An entry for each replica, each written by that replica only.
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
    /// `nil` until the remote told us what it holds.
    private var remote: Side?
    private var waiting = Waiting.nothing
    private var attempt = 0
    /// What an earlier sync saw the remote hold.
    private let seen: Checkpoints.Checkpoint?
    /// Whether a push was sent whose outcome nobody knows.
    private var isPushUnsettled = false
    /// Whether a save was sent whose outcome nobody knows.
    private var isSaveUnsettled = false
    private var pushFailure: BackendError?
    private var report: DocumentReport<Merge.Content>

    /// - Parameter seen: the version of the remote that was seen last, and the digest of what it held then. It spares
    ///   reading what others wrote anew without changing it. Not stored anywhere, so it may be newer than the
    ///   checkpoint; it is used only where both are of the same content.
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

    func start() -> Effect { .readLocal }

    /// What the remote holds, as far as this sync has seen; for the next one.
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
        guard let known else { return .readRemote(unless: nil) }
        if isDirty, !isDryRun, form == .oneEntry {
            return push(local.content, if: .matches(known.remoteVersion))
        }
        return .readRemote(unless: known.remoteVersion)
    }

    /// The checkpoint, with the version that an earlier sync saw last where that is of the same content.
    private var known: Checkpoints.Checkpoint? {
        guard let stored = checkpoints[remoteID] else { return nil }
        guard let seen, seen.contentDigest == stored.contentDigest else { return stored }
        return seen
    }

    /// Whether the local side holds something else than the remote did at the checkpoint.
    private var isDirty: Bool { checkpoints[remoteID]?.contentDigest != merge.digest(of: local.content) }

    private mutating func take(local entry: Entry) throws(SyncError) {
        let document = try open(entry.value, on: .local)
        local = Side(version: entry.version, content: document.content)
        checkpoints = Checkpoints(section: document.localSection)
        // What an unsettled save may have put there did not come from this side.
        if !isSaveUnsettled { report.localContent = document.content }
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
            // A remote of one entry is asked so only by a dry run or after a refused push while facts wait to be sent.
            if isDirty, form == .entryPerReplica, !isDryRun, pushFailure == nil {
                return push(local.content, if: .any)
            }
            report.remoteGains = isDirty
            return noteKnown()
        case .success(.found(let entry)): try take(remote: entry)
        case .success(.absent): try take(remote: nil)
        case .failure(let error): throw SyncError(.backend(pushFailure ?? error), side: .remote)
        }
        return settle()
    }

    /// Ends a sync for which the remote had nothing new.
    private mutating func noteKnown() -> Effect {
        // A dry run, or a sync whose save failed, saw a later version than the one that is stored.
        guard form == .entryPerReplica, !isDryRun, !isDirty, let known, known != checkpoints[remoteID] else {
            return finish(with: local.content)
        }
        var checkpoints = checkpoints
        checkpoints[remoteID] = known
        return save(local.content, checkpoints, if: local.version.map(Precondition.matches) ?? .absent)
    }

    /// Joins both sides and writes the one that lacks something: the remote first, so that one local write holds both
    /// the news and the checkpoint.
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
        // A remote that wrote the same content anew, say to note a checkpoint of its own, is not worth a write: two
        // stores that are each other's remote would note each other's notes for ever. Entries of replicas hold no
        // notes, so there it is worth one: each process after this one is spared reading them all.
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
                // The conflict is with our own write, whose answer was lost.
                report.remoteGains = true
                return settle()
            }
            report.conflicts += 1
            return try again(.remote)
        case .success(.deleted):
            preconditionFailure("a write does not delete")
        case .failure(let error) where error.disposition == .outcomeUnknown && attempt + 1 < maximumAttempts:
            // Repeating is safe: if the write happened, the answer is a conflict with our own content.
            isPushUnsettled = true
            return try again(.remote)
        case .failure(let error):
            waiting = .nothing
            pushFailure = error
            // What the remote holds is still worth saving: a restore needs no permission to write.
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
            // The conflict is with our own write, whose answer was lost.
            return didSave(content, saved, at: current.version)
        case .success(.conflict(let current)):
            // Somebody recorded meanwhile, or the local store was wiped: start from what is there now.
            waiting = .nothing
            report.conflicts += 1
            local = Side(version: nil, content: merge.empty)
            checkpoints = Checkpoints()
            if let current { try take(local: current) }
            return try again(.local)
        case .success(.deleted):
            preconditionFailure("a write does not delete")
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

    /// The end: the remote has answered what it holds, and the local side holds that.
    private mutating func finish(with content: Merge.Content) -> Effect {
        if let pushFailure {
            return .finish(.failure(SyncError(.backend(pushFailure), side: .remote, hasReceived: true)))
        }
        report.content = content
        report.remoteContent = remote?.content
        return .finish(.success(report))
    }
}
