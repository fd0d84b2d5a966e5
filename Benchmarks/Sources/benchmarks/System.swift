import BenchmarkSupport

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Reads the file at `path`.
func contents(of path: String) -> [UInt8] {
    let file = open(path, O_RDONLY)
    guard file >= 0 else { exitWithFailure("cannot open \(path)") }
    defer { close(file) }
    let size = Int(lseek(file, 0, SEEK_END))
    return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
        count = max(0, pread(file, buffer.baseAddress, size, 0))
    }
}

func isExecutable(_ path: String) -> Bool {
    access(path, X_OK) == 0
}

/// Runs a program to its end and returns its exit code, or -1 if it could not be started.
func run(_ program: String, _ arguments: [String]) -> Int32 {
    run(program, arguments, nil)
}

/// Runs a program to its end and returns its exit code, or -1 if it could not be started, and its output without line
/// ends, which must be short.
func output(of program: String, _ arguments: [String]) -> (code: Int32, text: String) {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { exitWithFailure("cannot make a pipe") }
    defer { close(ends[0]) }
    #if canImport(Darwin)
    var actions: posix_spawn_file_actions_t?
    #else
    var actions = posix_spawn_file_actions_t()
    #endif
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    let code = run(program, arguments, &actions)
    close(ends[1])
    let bytes = [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
        count = max(0, read(ends[0], buffer.baseAddress, buffer.count))
    }
    return (code, String(decoding: bytes.filter { $0 >= 0x20 }, as: UTF8.self))
}

#if canImport(Darwin)
private typealias FileActions = UnsafePointer<posix_spawn_file_actions_t?>
#else
private typealias FileActions = UnsafePointer<posix_spawn_file_actions_t>
#endif

private func run(_ program: String, _ arguments: [String], _ actions: FileActions?) -> Int32 {
    var argv: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) }
    defer { for argument in argv { free(argument) } }
    argv.append(nil)
    var child = pid_t()
    guard posix_spawn(&child, program, actions, nil, argv, environ) == 0 else { return -1 }
    var status: Int32 = 0
    guard waitpid(child, &status, 0) == child, status & 0x7F == 0 else { return -1 }
    return (status >> 8) & 0xFF
}

/// The baseline of every row: comparing `compared` equal bytes and copying `copied` bytes, which is the minimum cost of
/// reading and writing them. The memory is allocated in advance.
final class Floor {
    private let source: [UInt8]
    private let equal: [UInt8]
    private var target: [UInt8]
    private let compared: Int
    private let copied: Int

    init(compared: Int, copied: Int) {
        self.compared = compared
        self.copied = copied
        source = (0..<max(compared, copied)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        equal = source.map { $0 }
        target = [UInt8](repeating: 1, count: copied)
    }

    func run(_: Int = 0) -> UInt64 {
        let difference = memcmp(source, equal, compared)
        target.withUnsafeMutableBytes { target in
            source.withUnsafeBytes { source in
                if let to = target.baseAddress, let from = source.baseAddress { memcpy(to, from, copied) }
            }
        }
        return UInt64(truncatingIfNeeded: difference) &+ UInt64(target[copied - 1])
    }
}
