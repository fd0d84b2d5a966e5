import Testing

@testable import SyncCore

/// A local and a remote store, and a reconciler whose effects are performed on them one at a time.
struct Scene {
    typealias Machine = Reconciler<FactSetMerge>
    typealias Outcome = Result<DocumentReport<UInt64>, SyncError>

    /// An effect in the form that tests compare.
    enum Step: Equatable {
        case readLocal
        case readRemote
        case readRemoteUnlessUnchanged
        case push(UInt64, Precondition)
        case save(UInt64)
        case pause
    }

    /// The scene's treatment of an effect.
    enum Answer {
        case perform
        /// Perform the effect, and report an unknown outcome.
        case loseAnswer
        /// Do not perform the effect, and report this error.
        case fail(BackendError.Kind, BackendError.Disposition)
    }

    var local = Cell()
    var remote = Cell()
    var versions = Versions()
    private(set) var steps: [Step] = []

    /// The number of requests to the remote, including those that failed.
    var requests: Int {
        steps.count {
            switch $0 {
            case .readRemote, .readRemoteUnlessUnchanged, .push: true
            case .readLocal, .save, .pause: false
            }
        }
    }

    init(local: UInt64 = 0, remote: UInt64 = 0) {
        if local != 0 { self.local.record(local, &versions) }
        if remote != 0 { self.remote.record(remote, &versions) }
    }

    /// A scene whose sides have been synced and hold `facts`.
    static func synced(_ facts: UInt64) throws -> Scene {
        var scene = Scene(local: facts)
        _ = try scene.sync().get()
        return scene
    }

    mutating func record(local facts: UInt64) { local.record(facts, &versions) }
    mutating func record(remote facts: UInt64) { remote.record(facts, &versions) }

    /// Runs a sync to its end. `meanwhile` is called before each effect and may change the stores.
    @discardableResult
    mutating func sync(
        with remoteID: String = "remote", isDryRun: Bool = false, maximumAttempts: Int = 10,
        meanwhile: (inout Scene, Step) -> Answer = { _, _ in .perform }
    ) -> Outcome {
        steps = []
        var machine = Machine(
            merge: FactSetMerge(), remoteID: remoteID, isDryRun: isDryRun, maximumAttempts: maximumAttempts)
        var effect = machine.start()
        while true {
            if case .finish(let result) = effect { return result }
            #expect(effect.violation == nil)
            guard steps.count < 1_000 else {
                Issue.record("the sync does not end: \(steps.suffix(5))")
                return .failure(SyncError(.contention(attempts: 0), side: .local))
            }
            effect = machine.handle(event(for: effect, meanwhile))
        }
    }

    /// Runs a sync to its end, and changes the stores before its first step of a kind.
    mutating func sync(before kind: (Step) -> Bool, _ change: (inout Scene) -> Void) -> Outcome {
        var hasChanged = false
        return sync { scene, step in
            if kind(step), !hasChanged {
                hasChanged = true
                change(&scene)
            }
            return .perform
        }
    }

    /// Runs a sync to its end, and answers its first step of a kind with `answer`.
    mutating func sync(answeringFirst kind: (Step) -> Bool, with answer: Answer) -> Outcome {
        var isFirst = true
        return sync { _, step in
            guard kind(step), isFirst else { return .perform }
            isFirst = false
            return answer
        }
    }

    private mutating func event(for effect: Machine.Effect, _ meanwhile: (inout Scene, Step) -> Answer)
        -> Machine.Event
    {
        switch effect {
        case .readLocal:
            return .localRead(perform(.readLocal, meanwhile) { $0.local.read(unless: nil) })
        case .readRemote(let known):
            let step = known == nil ? Step.readRemote : .readRemoteUnlessUnchanged
            return .remoteRead(perform(step, meanwhile) { $0.remote.read(unless: known) })
        case .writeRemote(let bytes, let precondition):
            let step = Step.push(facts(in: bytes), precondition)
            return .remoteWritten(
                perform(step, meanwhile) { $0.remote.write(bytes, if: precondition, &$0.versions) })
        case .writeLocal(let bytes, let precondition):
            return .localWritten(
                perform(.save(facts(in: bytes)), meanwhile) {
                    $0.local.write(bytes, if: precondition, &$0.versions)
                })
        case .pause:
            _ = perform(.pause, meanwhile) { _ in }
            return .resumed
        case .finish:
            preconditionFailure("the end is not an effect to perform")
        }
    }

    private mutating func perform<Value>(
        _ step: Step, _ meanwhile: (inout Scene, Step) -> Answer, _ body: (inout Scene) -> Value
    ) -> Result<Value, BackendError> {
        steps.append(step)
        switch meanwhile(&self, step) {
        case .perform:
            return .success(body(&self))
        case .loseAnswer:
            _ = body(&self)
            return .failure(BackendError(.unavailable, disposition: .outcomeUnknown, message: "lost"))
        case .fail(let kind, let disposition):
            return .failure(BackendError(kind, disposition: disposition, message: "refused"))
        }
    }

    private func facts(in bytes: [UInt8]) -> UInt64 {
        Cell(entry: Entry(value: bytes, version: EntryVersion(bytes: [0]))).facts
    }
}

extension Scene.Step {
    var isPush: Bool { if case .push = self { true } else { false } }
    var isSave: Bool { if case .save = self { true } else { false } }
}

extension SyncError {
    /// The kind of the backend's error, if a backend failed.
    var backendKind: BackendError.Kind? { if case .backend(let error) = reason { error.kind } else { nil } }
    /// The number of attempts, if the sync ended in contention.
    var attempts: Int? { if case .contention(let attempts) = reason { attempts } else { nil } }
    /// True if the document could not be opened because it is newer; `nil` for other reasons.
    var isNewerDocument: Bool? { if case .document(let error) = reason { error.isNewer } else { nil } }
}

extension Result where Failure == SyncError {
    var error: SyncError? { if case .failure(let error) = self { error } else { nil } }
}
