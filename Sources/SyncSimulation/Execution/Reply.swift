/// The result that tasks wait for: of several results the first one counts, such as an answer, a timeout or the end of
/// the process. Single-threaded.
package final class Reply<Value: Sendable>: @unchecked Sendable {
    private var continuations: [UnsafeContinuation<Value, Never>] = []
    private var value: Value?

    package init() {}

    package var isResolved: Bool { value != nil }

    package func wait() async -> Value {
        await withUnsafeContinuation { continuation in
            if let value { continuation.resume(returning: value) } else { continuations.append(continuation) }
        }
    }

    /// Resumes the waiting tasks. Returns `false` if the reply was already resolved.
    @discardableResult
    package func resolve(_ value: Value) -> Bool {
        guard self.value == nil else { return false }
        self.value = value
        for continuation in continuations { continuation.resume(returning: value) }
        continuations = []
        return true
    }
}
