import SyncCore
import SyncProtocol

extension HTTPBackend {
    /// A stream that yields after each connection to the server's event stream and after each change.
    ///
    /// A lost connection is restored after a pause and resumes at the last cursor. An expired cursor yields one signal.
    /// If the server has no event stream, the stream yields after each long pause, so that the caller polls. If the
    /// transport does not support streaming, it yields nothing.
    ///
    /// It connects only while a task waits for a signal. It ends with the backend, or when the waiting task is
    /// cancelled.
    public func signals() -> AsyncStream<Void> {
        guard let transport = transport as? any HTTPStreamingTransport else { return lifetime.subscribe() }
        let subscription = ChangeSubscription(
            ChangeSubscription.Source(address: address, transport: transport, token: token, host: host))
        let lifetime = Lifetime(hub: lifetime)
        return AsyncStream {
            guard let end = lifetime.end else { return nil }
            return await withTaskGroup(of: Void?.self) { group in
                group.addTask { await subscription.next() }
                group.addTask {
                    for await _ in end {}
                    return nil
                }
                defer { group.cancelAll() }
                return await group.next() ?? nil
            }
        }
    }
}

/// The lifetime of a backend, observed without retaining the backend.
private struct Lifetime: Sendable {
    weak let hub: SignalHub?

    init(hub: SignalHub) { self.hub = hub }

    /// A stream that ends with the backend; `nil` if the backend no longer exists.
    var end: AsyncStream<Void>? { hub?.subscribe() }
}
