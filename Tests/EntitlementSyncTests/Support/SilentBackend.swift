import SyncCore

/// A backend wrapper that never signals changes.
struct SilentBackend: ForwardingBackend {
    let base: any KeyValueBackend

    init(_ base: any KeyValueBackend) {
        self.base = base
    }

    var label: String { "silent \(base.label)" }
    func signals() -> AsyncStream<Void> { AsyncStream { _ in } }
}
