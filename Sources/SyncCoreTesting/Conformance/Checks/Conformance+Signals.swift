import SyncCore

extension Conformance {
    static let signals: [Check] = [
        Check("a change signals every subscriber", skippedWhen: withoutSignals) { trial in
            let streams = [trial.backend.signals(), trial.backend.signals()]
            try await trial.put([1], at: trial.key("k"))
            for (number, stream) in streams.enumerated() {
                try await trial.expectSignal(in: stream, "subscriber \(number) of 2")
            }
        },
        Check("a subscriber that consumed a signal is signalled again", skippedWhen: withoutSignals) {
            trial in
            let stream = trial.backend.signals()
            for number in 0..<3 {
                try await trial.put([UInt8(number)], at: trial.key("k"))
                try await trial.expectSignal(in: stream, "after write \(number + 1) the subscriber")
            }
            _ = try await trial.backend.delete(trial.key("k"), if: .any)
            try await trial.expectSignal(in: stream, "after a delete the subscriber")
        },
        Check(
            "a change through another object on the same store is signalled",
            skippedWhen: { withoutSignals($0) ?? withoutSharing($0) },
            { trial in
                guard let reopen = trial.store.reopen else { return }
                let other = try await reopen()
                // The first write may have to create the store; only the next one matters.
                try await trial.put([0], at: trial.key("k"))
                let stream = trial.backend.signals()
                try await trial.through(other).put([1], at: trial.key("k"))
                try await trial.expectSignal(in: stream, "a subscriber of the first object")
            }),
    ]

    private static let withoutSignals = undeclared("pushed signals") { $0.signals == .pushed }
}

extension Trial {
    private static let patience = Duration.seconds(60)

    /// Fails the check unless a signal arrives. The timer only limits the wait for a signal that never comes.
    fileprivate func expectSignal(in stream: AsyncStream<Void>, _ listener: String) async throws {
        let host = host
        let signalled = await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                var iterator = stream.makeAsyncIterator()
                return await iterator.next() != nil
            }
            group.addTask {
                do { try await host.sleep(for: Self.patience) } catch { return false }
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        try expect(signalled, "\(listener) received no signal for \(Self.patience)")
    }
}
