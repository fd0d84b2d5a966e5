#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension HostServices {
    /// This machine: its wall clock, its monotonic timer, its random number generator.
    ///
    /// The one place in the libraries that reads a clock.
    public static let system = HostServices(
        now: { Int64((Date().timeIntervalSince1970 * 1_000).rounded(.down)) },
        timer: ContinuousClock(),
        randomBits: {
            var generator = SystemRandomNumberGenerator()
            return generator.next()
        })
}
