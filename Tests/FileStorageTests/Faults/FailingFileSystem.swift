import FileStorage
import SyncCore
import SyncCoreTesting
import Synchronization

/// The file system of the machine, failing at one call, or from one call on as after a power cut.
final class FailingFileSystem: FileSystem {
    enum Failure: Hashable, Sendable {
        /// No call fails, and the calls are counted.
        case none
        /// The call with this number fails with this code; later calls succeed.
        case once(Int, code: Int32)
        /// The call with this number and all later ones fail; a write is cut off halfway.
        case everythingFrom(Int)
        /// Each call fails with an I/O error with this probability. The seed alone determines the failing calls.
        case seeded(UInt64, rate: Double)
    }

    private let real = POSIXFileSystem()
    private let failure: Failure
    private let names = Mutex<[String]>([])

    init(_ failure: Failure) {
        self.failure = failure
    }

    /// The calls so far, in order.
    var calls: [String] { names.withLock { $0 } }

    private func failure(at call: String, _ path: String) -> FileSystemError? {
        let number = names.withLock { names in
            names.append(call)
            return names.count - 1
        }
        return switch failure {
        case .once(number, let code): FileSystemError(call: call, path: path, code: code)
        case .everythingFrom(let first) where number >= first: FileSystemError(call: call, path: path, code: 5)
        case .seeded(let seed, let rate):
            Self.fails(seed, number, rate) ? FileSystemError(call: call, path: path, code: 5) : nil
        default: nil
        }
    }

    private static func fails(_ seed: UInt64, _ number: Int, _ rate: Double) -> Bool {
        var generator = SeededGenerator(seed: seed &+ UInt64(number) &* 0xD134_2543_DE82_EF95)
        return Double.random(in: 0..<1, using: &generator) < rate
    }

    private func count(_ call: String, _ path: String) throws(FileSystemError) {
        if let error = failure(at: call, path) { throw error }
    }

    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> OpenFile {
        try count("open", path)
        return try real.open(path, mode)
    }

    func close(_ file: OpenFile) { real.close(file) }

    func read(
        _ file: OpenFile, into buffer: UnsafeMutableRawBufferPointer, at offset: Int
    ) throws(FileSystemError) -> Int {
        try count("read", file.path)
        return try real.read(file, into: buffer, at: offset)
    }

    func write(_ file: OpenFile, _ bytes: UnsafeRawBufferPointer, at offset: Int) throws(FileSystemError) {
        if let error = failure(at: "write", file.path) {
            try real.write(file, UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count / 2)]), at: offset)
            throw error
        }
        try real.write(file, bytes, at: offset)
    }

    func synchronize(_ file: OpenFile) throws(FileSystemError) {
        try count("fsync", file.path)
        try real.synchronize(file)
    }

    func tryLock(_ file: OpenFile) throws(FileSystemError) -> Bool {
        try count("flock", file.path)
        return try real.tryLock(file)
    }

    func byteCount(of file: OpenFile) throws(FileSystemError) -> Int {
        try count("fstat", file.path)
        return try real.byteCount(of: file)
    }

    func identity(of file: OpenFile) throws(FileSystemError) -> FileIdentity {
        try count("fstat", file.path)
        return try real.identity(of: file)
    }

    func identity(at path: String) throws(FileSystemError) -> FileIdentity {
        try count("stat", path)
        return try real.identity(at: path)
    }

    func rename(_ source: String, to target: String) throws(FileSystemError) {
        try count("rename", target)
        try real.rename(source, to: target)
    }

    func removeFile(_ path: String) throws(FileSystemError) {
        try count("unlink", path)
        try real.removeFile(path)
    }

    func createFolder(_ path: String) throws(FileSystemError) {
        try count("mkdir", path)
        try real.createFolder(path)
    }

    func names(inFolder path: String) throws(FileSystemError) -> [String] {
        try count("readdir", path)
        return try real.names(inFolder: path)
    }
}
