#if PostgreSQL
import CPQ
import SyncCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A pipe that ends the rest of a thread.
final class WakePipe: Sendable {
    let readEnd: Int32
    private let writeEnd: Int32

    init() throws(BackendError) {
        var ends: (Int32, Int32) = (-1, -1)
        let code = withUnsafeMutableBytes(of: &ends) { bytes in
            cpq_make_pipe(bytes.assumingMemoryBound(to: Int32.self).baseAddress)
        }
        guard code == 0 else {
            throw BackendError(.busy, message: "too many files are open; try again, or raise the limit")
        }
        (readEnd, writeEnd) = ends
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    /// Ends the present rest, or the next one.
    func wake() {
        var byte: UInt8 = 1
        // A full pipe wakes as well.
        _ = write(writeEnd, &byte, 1)
    }

    /// Removes all signals.
    func drain() {
        var buffer: (UInt64, UInt64) = (0, 0)
        while read(readEnd, &buffer, 16) == 16 {}
    }
}

/// Starts a thread that runs `body`.
func startThread(_ body: @escaping @Sendable () -> Void) throws(BackendError) {
    final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    let context = Unmanaged.passRetained(Box(body))
    let code = cpq_start_thread(
        { context in
            guard let context else { return nil }
            Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body()
            return nil
        }, context.toOpaque())
    guard code == 0 else {
        context.release()
        throw BackendError(.busy, message: "the system cannot create a thread (error \(code)); try again")
    }
}

extension Duration {
    /// The duration in whole milliseconds, rounded up, for `poll`.
    var pollMilliseconds: Int32 {
        let (seconds, attoseconds) = components
        guard seconds < 1_000_000 else { return .max }
        return max(0, Int32(seconds) * 1_000 + Int32((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000))
    }
}
#endif
