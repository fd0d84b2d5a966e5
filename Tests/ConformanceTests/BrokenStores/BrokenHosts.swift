import SyncCore
import SyncCoreTesting
import Synchronization

/// Hosts with predictable numbers, as if a store took its versions from the memory of a process.
enum BrokenHost {
    /// 1, 2, 3 and so on.
    static func counting() -> HostServices {
        let numbers = Numbers()
        return drawing { numbers.next() }
    }

    /// Numbers that look random but are the same for each new host, like a generator with a fixed seed that starts
    /// again with each process.
    static func restarting() -> HostServices {
        let numbers = Numbers()
        return drawing {
            var generator = SeededGenerator(seed: numbers.next())
            return generator.next()
        }
    }

    private static func drawing(_ bits: @escaping @Sendable () -> UInt64) -> HostServices {
        var host = HostServices.system
        host.randomBits = bits
        return host
    }

    private final class Numbers: Sendable {
        private let last = Mutex<UInt64>(0)

        func next() -> UInt64 {
            last.withLock { last in
                last += 1
                return last
            }
        }
    }
}
