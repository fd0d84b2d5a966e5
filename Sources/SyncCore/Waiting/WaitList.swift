import Synchronization

/// Tasks that wait for a value, in order of arrival.
///
/// The owner decides under its own lock if a task must wait, and adds and resumes waiters under that lock:
///
/// ```swift
/// func open() async {
///     let waiter = isLoading.withLock { $0 ? waiting.add() : nil }
///     await waiter?.value()
/// }
///
/// func finishLoading() {
///     isLoading.withLock { isLoading in
///         isLoading = false
///         waiting.resumeAll(returning: ())
///     }
/// }
/// ```
///
/// - **Order**: waiters are resumed in the order in which they were added, except for those that were added at the
///   front. Resumed tasks run in any order.
/// - **No lost wake-up**: a waiter counts from ``add(_:atFront:)`` on. It may be resumed before its task suspends.
/// - **Cancellation**: a waiter leaves the list once: when it is resumed or taken, or when its task is cancelled.
///   Whichever comes first decides the value. A cancellation of the task before ``Waiter/value(ifCancelled:)`` counts
///   as one during it.
/// - **No leak**: the list holds a waiter only until it leaves. The owner must await each waiter once, and resume each
///   waiter that it takes once.
///
/// Resuming only schedules the task, so the owner may hold a lock.
///
/// - Complexity: O(1) to add a waiter at the end; O(waiters) to add one at the front, to resume or take waiters, and to
///   cancel one.
package final class WaitList<Payload: Sendable, Value: Sendable>: Sendable {
    /// A task that waits, or is about to.
    package final class Waiter: Sendable {
        private enum State {
            case running
            case suspended(CheckedContinuation<Value, Never>)
            case resumed(Value)
        }

        package let payload: Payload
        private let list: WaitList
        private let state = Mutex(State.running)

        fileprivate init(_ payload: Payload, in list: WaitList) { (self.payload, self.list) = (payload, list) }

        /// Waits until the owner resumes this waiter.
        ///
        /// - Parameter value: The result if the task is cancelled first; `nil` to ignore cancellation.
        package nonisolated(nonsending) func value(ifCancelled value: Value? = nil) async -> Value {
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let known: Value? = state.withLock { state in
                        if case .resumed(let value) = state { return value }
                        state = .suspended(continuation)
                        return nil
                    }
                    if let known { continuation.resume(returning: known) }
                }
            } onCancel: {
                if let value, list.remove(self) { resume(returning: value) }
            }
        }

        /// Resumes a waiter that was taken from its list.
        package func resume(returning value: Value) {
            state.withLock { state in
                if case .suspended(let continuation) = state { continuation.resume(returning: value) }
                state = .resumed(value)
            }
        }
    }

    private let waiters = Mutex<[Waiter]>([])

    package init() {}

    package var count: Int { waiters.withLock { $0.count } }

    package var isEmpty: Bool { count == 0 }

    /// Returns `true` if a waiter's payload satisfies `condition`.
    package func contains(_ condition: (Payload) -> Bool) -> Bool {
        waiters.withLock { $0.contains { condition($0.payload) } }
    }

    /// Adds a waiter for the current task, which must then await ``Waiter/value(ifCancelled:)``.
    package func add(_ payload: Payload, atFront: Bool = false) -> Waiter {
        let waiter = Waiter(payload, in: self)
        waiters.withLock { $0.insert(waiter, at: atFront ? 0 : $0.endIndex) }
        return waiter
    }

    /// Resumes the first waiter whose payload satisfies `condition`. Returns `false` if there is none.
    @discardableResult
    package func resumeFirst(returning value: Value, where condition: (Payload) -> Bool = { _ in true }) -> Bool {
        let first = waiters.withLock { waiters in
            waiters.firstIndex { condition($0.payload) }.map { waiters.remove(at: $0) }
        }
        first?.resume(returning: value)
        return first != nil
    }

    /// Resumes all waiters whose payloads satisfy `condition`. Returns `false` if there are none.
    @discardableResult
    package func resumeAll(returning value: Value, where condition: (Payload) -> Bool = { _ in true }) -> Bool {
        let resumed = waiters.withLock { waiters in
            let resumed = waiters.filter { condition($0.payload) }
            if !resumed.isEmpty { waiters.removeAll { condition($0.payload) } }
            return resumed
        }
        for waiter in resumed { waiter.resume(returning: value) }
        return !resumed.isEmpty
    }

    /// Removes and returns the longest run of first waiters that all satisfy `condition`. Their tasks can no longer
    /// be cancelled, and the caller must resume each of them.
    package func take(while condition: (Payload) -> Bool = { _ in true }) -> [Waiter] {
        waiters.withLock { waiters in
            let taken = Array(waiters.prefix { condition($0.payload) })
            waiters.removeFirst(taken.count)
            return taken
        }
    }

    /// Returns waiters that were taken to the front, in their order. A cancellation in the meantime has no effect.
    package func putBack(_ taken: some Sequence<Waiter>) {
        waiters.withLock { $0.insert(contentsOf: Array(taken), at: 0) }
    }

    /// Returns `true` if `waiter` was in the list.
    private func remove(_ waiter: Waiter) -> Bool {
        waiters.withLock { waiters in
            waiters.firstIndex { $0 === waiter }.map { waiters.remove(at: $0) } != nil
        }
    }
}

extension WaitList where Payload == Void {
    /// Adds a waiter for the current task, which must then await ``Waiter/value(ifCancelled:)``.
    package func add() -> Waiter { add(()) }
}
