/// An error type that can express the failure of a backend.
package protocol BackendFailure: Error {
    /// Creates the error for a failure of a backend.
    init(_ error: BackendError)
}

extension BackendError: BackendFailure {
    package init(_ error: BackendError) { self = error }
}

/// The maximum number of attempts of an update while other writers keep writing.
private let maximumAttempts = 100
/// The number of unknown outcomes after which an update throws the last error: the store loses its answers.
private let maximumUnknownCount = 3

extension KeyValueBackend {
    /// Changes the entry under `key` by compare-and-swap, however many writers change it at the same time.
    ///
    /// Reads the entry, passes it to `change`, and writes the value that `change` returns if no other writer was first.
    /// Otherwise `change` is called again with the current entry. After a write with an unknown outcome the entry is
    /// read again. If it holds the value of that write, the value is written once more without asking `change`, because
    /// only an acknowledged write is durable.
    ///
    /// - Parameters:
    ///   - key: The key of the entry.
    ///   - change: Receives the current entry, `nil` if there is none. Returns the new value, or `nil` to leave the
    ///     entry as it is.
    /// - Returns: The entry after the call; `nil` if there is none.
    /// - Throws: The error of `change`, or that of the backend, also after three writes of unknown outcome;
    ///   `BackendError.Kind.busy` after 100 writes of which none succeeded.
    @discardableResult
    package func update<Failure: BackendFailure>(
        _ key: EntryKey, _ change: (Entry?) async throws(Failure) -> [UInt8]?
    ) async throws(Failure) -> Entry? {
        var current = try await entry(key, Failure.self)
        /// The value of the last write if its outcome is unknown.
        var unsettled: [UInt8]?
        var unknownCount = 0
        for _ in 0..<maximumAttempts {
            let value: [UInt8]
            if let unsettled, unsettled == current?.value {
                value = unsettled
            } else {
                guard let new = try await change(current) else { return current }
                value = new
            }
            let precondition = current.map { Precondition.matches($0.version) } ?? .absent
            unsettled = nil
            do throws(BackendError) {
                switch try await write(value, to: key, if: precondition).outcome {
                case .written(let version): return Entry(value: value, version: version)
                case .conflict(let winner): current = winner
                case .deleted: preconditionFailure("a write reported a deletion")
                }
            } catch {
                unknownCount += 1
                guard error.disposition == .outcomeUnknown, unknownCount < maximumUnknownCount else {
                    throw Failure(error)
                }
                unsettled = value
                current = try await entry(key, Failure.self)
            }
        }
        throw Failure(
            BackendError(
                .busy, operation: .write, key: key, disposition: unsettled == nil ? .transient : .outcomeUnknown,
                message: "\(label): other writers changed the entry first \(maximumAttempts) times; try again"))
    }

    /// Deletes the entry under `key` if `condition` holds for it, however many writers change it at the same time.
    ///
    /// An entry that is gone after a deletion of unknown outcome counts as deleted.
    ///
    /// - Parameters:
    ///   - key: The key of the entry.
    ///   - condition: Receives the current entry. It is called again for an entry that another writer has changed.
    /// - Throws: The error of `condition`, or that of the backend, also after three deletions of unknown outcome;
    ///   `BackendError.Kind.busy` after 100 deletions of which none succeeded.
    package func remove<Failure: BackendFailure>(
        _ key: EntryKey, if condition: (Entry) async throws(Failure) -> Bool
    ) async throws(Failure) {
        var current = try await entry(key, Failure.self)
        var unknownCount = 0
        for _ in 0..<maximumAttempts {
            guard let held = current, try await condition(held) else { return }
            do throws(BackendError) {
                guard case .conflict(let winner) = try await delete(key, if: .matches(held.version)).outcome else {
                    return
                }
                current = winner
            } catch {
                unknownCount += 1
                guard error.disposition == .outcomeUnknown, unknownCount < maximumUnknownCount else {
                    throw Failure(error)
                }
                current = try await entry(key, Failure.self)
            }
        }
        throw Failure(
            BackendError(
                .busy, operation: .delete, key: key, disposition: .transient,
                message: "\(label): other writers changed the entry first \(maximumAttempts) times; try again"))
    }

    private func entry<Failure: BackendFailure>(
        _ key: EntryKey, _: Failure.Type
    ) async throws(Failure) -> Entry? {
        do throws(BackendError) {
            if case .found(let entry) = try await read(key).outcome { return entry }
            return nil
        } catch {
            throw Failure(error)
        }
    }
}
