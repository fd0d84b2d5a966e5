import BenchmarkSupport

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The baseline of the file store: the system calls of a durable file replacement, and those of reading a file.
final class PlainFiles {
    private let folder: String
    private let descriptor: Int32

    init(folder: String) {
        self.folder = folder
        guard mkdir(folder, 0o700) == 0 else { exitWithFailure("cannot make \(folder)") }
        descriptor = open(folder, O_RDONLY)
        guard descriptor >= 0 else { exitWithFailure("cannot open \(folder)") }
    }

    deinit { close(descriptor) }

    /// open, write, fsync, rename, fsync of the folder.
    func write(_ bytes: [UInt8], to index: Int) -> UInt64 {
        let (temporary, path) = ("\(folder)/temporary", "\(folder)/\(index)")
        let file = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard file >= 0, pwrite(file, bytes, bytes.count, 0) == bytes.count, fsync(file) == 0, close(file) == 0,
            rename(temporary, path) == 0, fsync(descriptor) == 0
        else { exitWithFailure("cannot write \(path)") }
        return UInt64(bytes.count)
    }

    /// open, fstat, read, close.
    func read(_ index: Int) -> UInt64 {
        let file = open("\(folder)/\(index)", O_RDONLY)
        var status = stat()
        guard file >= 0, fstat(file, &status) == 0 else { exitWithFailure("cannot open \(index)") }
        let bytes = [UInt8](unsafeUninitializedCapacity: Int(status.st_size)) { buffer, count in
            count = max(0, pread(file, buffer.baseAddress, buffer.count, 0))
        }
        close(file)
        return UInt64(bytes.count)
    }
}

/// Overwrites one place of one file and synchronizes it: the time of the disk for a durable write.
final class PlainDisk {
    private let descriptor: Int32
    private let page = [UInt8](repeating: 7, count: 4_096)

    init(path: String) {
        descriptor = open(path, O_RDWR | O_CREAT, 0o600)
        guard descriptor >= 0, pwrite(descriptor, page, page.count, 0) == page.count, fsync(descriptor) == 0 else {
            exitWithFailure("cannot write \(path)")
        }
    }

    deinit { close(descriptor) }

    func write() -> UInt64 {
        #if canImport(Darwin)
        let isSynchronized =
            pwrite(descriptor, page, page.count, 0) == page.count && fcntl(descriptor, F_FULLFSYNC) == 0
        #else
        let isSynchronized = pwrite(descriptor, page, page.count, 0) == page.count && fdatasync(descriptor) == 0
        #endif
        guard isSynchronized else { exitWithFailure("cannot synchronize") }
        return 1
    }
}

/// The resident memory of this process in bytes. Its maximum so far on systems other than Linux.
func residentMemory() -> Int {
    #if os(Linux)
    let file = open("/proc/self/statm", O_RDONLY)
    defer { close(file) }
    var text = [UInt8](repeating: 0, count: 128)
    let count = read(file, &text, text.count)
    let fields = String(decoding: text.prefix(max(0, count)), as: UTF8.self).split(separator: " ")
    guard fields.count > 1, let pages = Int(fields[1]) else { exitWithFailure("cannot read /proc/self/statm") }
    return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    #else
    var usage = rusage()
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0
    #endif
}
