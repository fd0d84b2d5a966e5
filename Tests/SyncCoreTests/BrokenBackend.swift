import SyncCore
import Synchronization

/// A memory store with one flaw, to prove that the conformance checks notice it.
final class BrokenBackend: KeyValueBackend {
    enum Flaw: String, CaseIterable, Sendable {
        case ignoresPreconditions, repeatsVersions, foldsCase, normalisesUnicode, hidesConflictingEntry, skipsKey
        case takesErrorForAbsence, losesUpdates, staleConditionalRead, batchStopsAtConflict, listsDeletedKeys
        case ordersByUnicode, believesOldCursor, neverSignals, dropsPreconditionsSilently, ignoresMaximum
        case writesAfterAnError
        /// Not a flaw: an honest store with fewer capabilities.
        case refusesPreconditionsAsDeclared

        var isFlaw: Bool { self != .refusesPreconditionsAsDeclared }

        var checkThatFails: String {
            switch self {
            case .ignoresPreconditions: "matches lets a write through at that version only"
            case .repeatsVersions: "versions never repeat, not for equal values and not after a delete"
            case .foldsCase, .normalisesUnicode: "odd keys are kept apart, byte by byte"
            case .hidesConflictingEntry: "absent lets the first write through and no second"
            case .skipsKey: "listing gives every key once, in the order of its bytes, in pages of every size"
            case .takesErrorForAbsence: "a reader sees one write or another, never a mixture"
            case .losesUpdates: "a counter raised by concurrent tasks loses no step"
            case .staleConditionalRead: "a conditional read answers unchanged for the present version only"
            case .batchStopsAtConflict: "a conflict in a batch hinders no other key"
            case .listsDeletedKeys: "a deleted key is not listed"
            case .ordersByUnicode: "listing gives every key once, in the order of its bytes, in pages of every size"
            case .believesOldCursor: "a cursor that is not of this store's history has expired"
            case .neverSignals: "a change signals every subscriber"
            case .dropsPreconditionsSilently:
                "preconditions that cannot be honoured are refused, and nothing is written"
            case .ignoresMaximum: "a value larger than the declared maximum is refused, and what was there stays"
            case .writesAfterAnError: "a write refused with cancelled has not happened"
            case .refusesPreconditionsAsDeclared: ""
            }
        }
    }

    private struct State {
        var readCount = 0
        var late: WriteRequest?
        var deleted: Set<EntryKey> = []
        var firstVersions: [EntryKey: EntryVersion] = [:]
    }

    let capabilities: Capabilities
    let label = "broken:"
    private let flaw: Flaw
    private let memory = MemoryBackend()
    private let state = Mutex(State())

    init(_ flaw: Flaw) {
        self.flaw = flaw
        let isPlain = flaw == .dropsPreconditionsSilently || flaw == .refusesPreconditionsAsDeclared
        capabilities = Capabilities(
            compareAndSwap: !isPlain, durability: .process, changes: flaw != .refusesPreconditionsAsDeclared,
            signals: .pushed, sharedBetweenProcesses: false,
            maximumValueByteCount: flaw == .ignoresMaximum ? 1_000 : nil)
    }

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        let readCount = state.withLock { state in
            state.readCount += 1
            return state.readCount
        }
        if let late = state.withLock({ $0.late.take() }) { _ = try await memory.write([late]) }
        if flaw == .takesErrorForAbsence, readCount.isMultiple(of: 7) { return Answer(.absent) }
        let answer = try await memory.read(place(of: key), unless: known)
        if flaw == .staleConditionalRead, known != nil, answer.outcome != .absent { return Answer(.unchanged) }
        guard flaw == .repeatsVersions, case .found(let entry) = answer.outcome else { return answer }
        let version = state.withLock { $0.firstVersions[key] } ?? entry.version
        return Answer(.found(Entry(value: entry.value, version: version)))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        var precondition = precondition
        if flaw == .refusesPreconditionsAsDeclared, precondition != .any {
            throw BackendError(.unsupported, message: "no preconditions here")
        }
        if flaw == .ignoresPreconditions || flaw == .dropsPreconditionsSilently { precondition = .any }
        if flaw == .losesUpdates { precondition = try await checkedTooEarly(precondition, for: key) }
        if flaw == .writesAfterAnError, Task.isCancelled {
            state.withLock { $0.late = WriteRequest(key, value: value, if: .any) }
            throw BackendError(.cancelled, operation: .write, message: "cancelled, and written later")
        }
        let answer = try await memory.write(value, to: place(of: key), if: precondition)
        switch answer.outcome {
        case .conflict where flaw == .hidesConflictingEntry:
            return Answer(.conflict(nil))
        case .written(let version) where flaw == .repeatsVersions:
            return state.withLock { state in
                let first = state.firstVersions[key] ?? version
                state.firstVersions[key] = first
                return Answer(.written(first))
            }
        default:
            state.withLock { _ = $0.deleted.remove(key) }
            return answer
        }
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        if flaw == .refusesPreconditionsAsDeclared, precondition != .any {
            throw BackendError(.unsupported, message: "no preconditions here")
        }
        let isDropped = flaw == .dropsPreconditionsSilently
        let answer = try await memory.delete(place(of: key), if: isDropped ? .any : precondition)
        if answer.outcome == .deleted { state.withLock { _ = $0.deleted.insert(key) } }
        return answer
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        var page = try await memory.list(prefix: prefix, after: cursor, limit: limit).outcome
        if flaw == .skipsKey, cursor != nil, page.items.count > 1 { page.items.removeFirst() }
        if flaw == .ordersByUnicode { page.items.sort { $0.key.text.lowercased() < $1.key.text.lowercased() } }
        if flaw == .listsDeletedKeys, page.next == nil {
            let deleted = state.withLock { $0.deleted.filter { $0.hasPrefix(prefix) } }
            page.items += deleted.map { KeyPage.Item(key: $0, version: EntryVersion(bytes: [0])) }
            page.items.sort { $0.key < $1.key }
        }
        return Answer(page)
    }

    func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        let answer = try await memory.write(requests)
        guard flaw == .batchStopsAtConflict,
            let first = answer.outcome.firstIndex(where: { result in
                if case .success(.conflict) = result { true } else { false }
            })
        else { return answer }
        for request in requests[(first + 1)...] { _ = try await memory.delete(request.key, if: .any) }
        return answer
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        if !capabilities.changes { throw BackendError(.unsupported, message: "no changes here") }
        do throws(BackendError) {
            return try await memory.changes(since: cursor, limit: limit)
        } catch {
            guard flaw == .believesOldCursor else { throw error }
            return Answer(ChangePage(changes: [], cursor: cursor, hasMore: false))
        }
    }

    func signals() -> AsyncStream<Void> {
        flaw == .neverSignals ? AsyncStream { $0.finish() } : memory.signals()
    }

    private func place(of key: EntryKey) throws(BackendError) -> EntryKey {
        switch flaw {
        case .foldsCase: try EntryKey(key.text.lowercased())
        case .normalisesUnicode: try EntryKey(key.text == "e\u{301}" ? "é" : key.text)
        default: key
        }
    }

    /// Checks like a careless store: the answer is old by the time of the write.
    private func checkedTooEarly(
        _ precondition: Precondition, for key: EntryKey
    ) async throws(BackendError) -> Precondition {
        let outcome = try await memory.read(key).outcome
        let current: EntryVersion? = if case .found(let entry) = outcome { entry.version } else { nil }
        guard precondition.holds(for: current) else { return precondition }
        for _ in 0..<10 { await Task.yield() }
        return .any
    }
}
