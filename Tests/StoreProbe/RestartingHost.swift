import SyncCore
import SyncCoreTesting
import Synchronization

/// A deliberately broken host whose random numbers look random but are the same in each process.
final class RestartingHost: Sendable {
    private let generator = Mutex(SeededGenerator(seed: 1))

    /// The system's services, except for the random numbers.
    var host: HostServices {
        var host = HostServices.system
        host.randomBits = { self.generator.withLock { $0.next() } }
        return host
    }
}
