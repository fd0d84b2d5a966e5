import HTTPTypes
import NIOCore
import SyncService

extension Responder {
    /// How a request got on before anything of it was answered.
    struct Turn {
        /// Why it is not answered any further.
        var refusal: IncomingBody.Received?
        /// Whether it was counted as one of its address.
        var isCounted = false
    }

    static let tooMuch = "the server has too much to do; try again"

    /// Waits for the turn of a request for a stream of events; any other has it at once.
    ///
    /// - Throws: ``ConnectionEnds`` where the client leaves meanwhile.
    func turn(of request: HTTPRequest, _ peer: String, over channel: any Channel) async throws(ConnectionEnds) -> Turn {
        guard SyncService.Service.isStreamAskedFor(by: request), !isAlwaysLetIn(request) else { return Turn() }
        switch admitStream(request, peer) {
        case .refused(let answer): return Turn(refusal: .answered(answer), isCounted: true)
        case .atOnce: return Turn(isCounted: true)
        case .inTurn(let isKnown):
            let comer = WaitingLine.Comer(peer: peer, isKnown: isKnown)
            let outcome = await turnstile.wait(on: channel.eventLoop, comer) { leave in
                WholeRequests.whenWaiterLeaves(channel, leave)
            }
            switch outcome {
            case .admitted:
                guard channel.isActive else { throw ConnectionEnds() }
                return Turn(isCounted: true)
            case .refused(.addressRate):
                let reason = "too many streams of this address wait; wait 1 s"
                return Turn(refusal: .refused(.tooManyRequests, reason), isCounted: true)
            case .refused: return Turn(refusal: .refused(.serviceUnavailable, Self.tooMuch), isCounted: true)
            case .gone: throw ConnectionEnds()
            case .ended:
                return Turn(refusal: .refused(.serviceUnavailable, "the server is about to end"), isCounted: true)
            }
        }
    }
}
