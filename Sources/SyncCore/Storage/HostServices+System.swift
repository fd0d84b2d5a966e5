import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

extension HostServices {
    /// This machine: its wall clock, its monotonic timer, its random number generator.
    ///
    /// The one place in the libraries that reads a clock.
    public static let system = HostServices(
        now: { Int64((Date().timeIntervalSince1970 * 1_000).rounded(.down)) },
        timer: ContinuousClock(),
        randomBits: { SystemBits.shared.next() })
}

/// The system's random bits. Where it takes a system call to get some, they are asked for 256 bytes at a time; so a
/// machine that goes on twice from one snapshot may draw the rest of them twice.
private final class SystemBits: Sendable {
    static let shared = SystemBits()

    #if os(Linux) || os(Android)
    private let words = Mutex<[UInt64]>([])

    func next() -> UInt64 { words.withLock { $0.popLast() ?? Self.refill(&$0) } }

    private static func refill(_ words: inout [UInt64]) -> UInt64 {
        words = [UInt64](repeating: 0, count: 32)
        // More it does not give at once (getentropy(3)).
        let isFull = words.withUnsafeMutableBytes { getentropy($0.baseAddress, $0.count) == 0 }
        if isFull, let word = words.popLast() { return word }
        words = []
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }
    #else
    func next() -> UInt64 {
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }
    #endif
}
