#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension HostServices {
    /// The wall clock, monotonic timer and random number generator of this machine.
    ///
    /// This is the only place in the libraries that reads a clock.
    public static let system = HostServices(
        now: { Int64((Date().timeIntervalSince1970 * 1_000).rounded(.down)) },
        timer: ContinuousClock(),
        randomBits: {
            // Random bits are not buffered: a virtual machine that resumes from a snapshot would use the same bits
            // again and give two values one version.
            var generator = SystemRandomNumberGenerator()
            return generator.next()
        })
}
