import SyncCore
import SyncProtocol

extension HTTPBackend {
    /// A signal after each connection to the server's events, and after each change that they tell of. When the
    /// connection ends, it is made again after a pause and goes on where it was; what the server cannot tell any more
    /// is one signal. Ends with the backend, or when the task that waits is cancelled.
    ///
    /// Connected while somebody waits for a signal, and not before. Silent where the transport does not stream.
    public func signals() -> AsyncStream<Void> {
        guard let transport = transport as? any HTTPStreamingTransport else { return lifetime.subscribe() }
        let feed = ChangeFeed(ChangeFeed.Source(address: address, transport: transport, token: token, host: host))
        let lifetime = Lifetime(hub: lifetime)
        return AsyncStream {
            guard let end = lifetime.end else { return nil }
            return await withTaskGroup(of: Void?.self) { group in
                group.addTask { await feed.next() }
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

/// How long a backend lives, without keeping it alive.
private struct Lifetime: Sendable {
    weak let hub: SignalHub?

    init(hub: SignalHub) { self.hub = hub }

    /// A stream that ends with the backend; `nil` when that has happened.
    var end: AsyncStream<Void>? { hub?.subscribe() }
}
