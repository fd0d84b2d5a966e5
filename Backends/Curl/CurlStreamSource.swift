import SyncProtocol

/// The reader's end of a stream. Releasing it ends the exchange.
final class CurlStreamSource: TransportSource {
    private let session: CurlSession
    private let id: UInt64
    private let buffer: TransportBuffer

    init(session: CurlSession, id: UInt64, buffer: TransportBuffer) {
        (self.session, self.id, self.buffer) = (session, id, buffer)
    }

    deinit { session.queue.add(.cancel(id)) }

    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            if Task.isCancelled {
                session.queue.add(.cancel(id))
                throw .cancelled(mayHaveArrived: true)
            }
            switch buffer.take() {
            case .bytes(let bytes, let wasFull):
                if wasFull { session.queue.add(.resume(id)) }
                return bytes
            case .end(.success): return nil
            case .end(.failure(let error)): throw error
            case .nothing:
                let (queue, id) = (session.queue, id)
                await buffer.wait { queue.add(.cancel(id)) }
            }
        }
    }
}
