import Synchronization

/// Devices that a test has made, each with a cloud of its own.
final class Devices: Sendable {
    private let devices = Mutex<[FakeDevice]>([])

    var all: [FakeDevice] { devices.withLock { $0 } }

    func make() -> FakeDevice {
        let device = FakeDevice(FakeCloud())
        devices.withLock { $0.append(device) }
        return device
    }
}
