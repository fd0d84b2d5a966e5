import HTTPTypes
import SyncService
import Synchronization

/// A handler that suspends all requests until ``open()``. By default it answers with the length of the body.
final class GatedHandler: Sendable {
    private struct State {
        var isOpen = false
        var arrivals = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    private let text: @Sendable (ServiceRequest) -> String
    var arrivals: Int { state.withLock { $0.arrivals } }

    init(_ text: @escaping @Sendable (ServiceRequest) -> String = { "\($0.body.count)" }) { self.text = text }

    @Sendable func respond(_ request: ServiceRequest) async -> ServiceResponse {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                state.arrivals += 1
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
        return ServiceResponse(HTTPResponse(status: .ok), body: .bytes(Array(text(request).utf8)), route: "/test")
    }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}
