import SyncCore
import Synchronization
import UbiquitousStorage

/// Devices that a test has made, each with a cloud of its own.
final class Devices: Sendable {
    private let devices = Mutex<[FakeDevice]>([])

    var all: [FakeDevice] { devices.withLock { $0 } }

    /// Creates a device, and the store of its iCloud account.
    func makeStore() async throws -> UbiquitousBackend {
        let device = FakeDevice(FakeCloud())
        devices.withLock { $0.append(device) }
        let backend = UbiquitousBackend(device, boundIn: MemoryBackend())
        try await backend.create()
        return backend
    }
}
