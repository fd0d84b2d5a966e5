import SyncCore
import SyncCoreTesting
import SyncService
import SyncSimulation

extension ServiceWorld {
    /// Called after each operation of a process on the store.
    func didCall(_ operation: BackendError.Operation, _ key: EntryKey?) {
        if operation == .write, key?.text == ProjectionAudit.leaseKey { projection?.audit.didTouchLease() }
    }

    /// The value that the primary of the store has now.
    func valueNow(of key: String) -> [UInt8]? {
        let memory = cluster?.primary ?? store as? MemoryBackend
        guard let key = try? EntryKey(key), case .found(let entry)? = memory?.readSynchronously(key, unless: nil) else {
            return nil
        }
        return entry.value
    }

    /// The host services of a check, whose wall clock stands still.
    func auditHost(at instant: Int64) -> HostServices {
        let bits = SharedBits(random.generator(for: 402, 0, .host))
        return HostServices(
            now: { instant }, timer: SimulationClock(scheduler: scheduler), randomBits: { bits.next() })
    }

    /// Disturbs the projection, or derives it again.
    func disturbProjection(_ action: ServiceAction) async -> String {
        switch action {
        case .failProjection(let perMille, let milliseconds):
            projection?.begin(perMille: perMille, microseconds: milliseconds * 1_000)
        case .killProjector(let count, let pause):
            projection?.disturb(after: count, .kill(pause: pause * 1_000))
        case .freezeProjector(let count, let milliseconds):
            projection?.disturb(after: count, .freeze(length: milliseconds * 1_000))
        case .failReceiver(let milliseconds): projection?.receiver.fail(microseconds: milliseconds * 1_000)
        case .reindex(let count): return await reindex(operationCount: count)
        default: break
        }
        return "done"
    }

    /// Derives all rows again, as `syncd store reindex` does.
    private func reindex(operationCount: Int?) async -> String {
        guard let projection else { return "no projection" }
        let program = SimulatedProgram(world: self, operationCount: operationCount, mark: .reindexInterrupted)
        let writer = ProjectionWriter(lane: storeLane, launch: takeMessage())
        let configuration = machines.contains(where: \.isReconfigured) ? laterConfiguration : configuration
        guard let catalog = configuration.catalog else { return "no catalogue" }
        let projector = Projector(
            program, into: ProgramConnection(program: program, projection: projection, writer: writer),
            catalog: catalog, json: configuration.catalogJSON, host: clientHost, onError: { _ in })
        do throws(BackendError) {
            let count = try await projector.rebuild { _, _ in }
            reach(.reindexed)
            return "\(count) accounts"
        } catch {
            return ClientDevice.failurePrefix + (program.isInterrupted ? "interrupted" : "\(error.kind)")
        }
    }

    /// Compares the rows with a fresh projection, if they have all changes at this moment.
    func compareProjection() async {
        switch await projection?.audit.compare([configuration, laterConfiguration]) {
        case .equal?: reach(.projectionCompared)
        case .different(let message)?: report(.projection, "the rows are not those of the store: \(message)")
        case .behind?, nil: break
        }
    }

    /// The rows are those of a fresh projection, and no change is missing.
    func checkProjection() async {
        guard let projection else { return }
        var reason = ""
        for _ in 0..<240 {
            switch await projection.audit.compare([marks[.reconfigured] == nil ? configuration : laterConfiguration]) {
            case .equal:
                if scenario.projection?.deliversEvents == true { await projection.receiver.checkEnd() }
                return
            case .different(let message):
                return report(.projection, "at the end the rows are not those of the store: \(message)")
            case .behind(let words): reason = words
            }
            await pause(250_000)
        }
        report(.projection, "the rows do not catch up with the store: \(reason)")
    }
}
