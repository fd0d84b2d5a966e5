import SyncCore

/// A store that behaves like `memory` except for the one fault that it adds.
protocol OneFault: ForwardingBackend {
    var memory: MemoryBackend { get }
}

extension OneFault {
    var base: any KeyValueBackend { memory }
    var label: String { "broken:" }
}
