import SyncCore
import SyncCoreTesting
import Synchronization

/// A deliberately broken host: its random numbers look random, and are the same ones in each process.
final class RestartingHost: Sendable {
    private let generator = Mutex(SeededGenerator(seed: 1))

    /// The system's, but for the random numbers.
    var host: HostServices {
        var host = HostServices.system
        host.randomBits = { self.generator.withLock { $0.next() } }
        return host
    }
}
