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
            // None are drawn ahead: a machine that goes on from a snapshot of itself would draw them twice, and give
            // two values one version.
            var generator = SystemRandomNumberGenerator()
            return generator.next()
        })
}
