import Foundation

/// Writes pieces to a file that appears under its name only when it is complete, or to standard output.
///
/// Only the user may read the new file. If the process is killed, an incomplete file with a random suffix remains.
final class AtomicFile {
    private let path: String?
    private let draft: String
    private let file: FileHandle
    private var buffer: [UInt8] = []

    private static let bufferByteCount = 1 << 16

    /// Begins a file at `path`; `nil` for standard output.
    init(_ path: String?) throws(Failure) {
        self.path = path
        guard let path else {
            (draft, file) = ("", .standardOutput)
            return
        }
        guard !path.isEmpty else { throw Failure(.usage, "a file name must not be empty") }
        let known = try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
        guard known ?? .typeRegular == .typeRegular else { throw Failure(.failed, "\(path) must be a file") }
        var template = Array("\(path).XXXXXX".utf8CString)
        let descriptor = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.map { mkstemp($0) } ?? -1
        }
        guard descriptor >= 0 else { throw Self.failure(path, String(cString: strerror(errno))) }
        draft = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// Appends bytes.
    func write(_ bytes: some Sequence<UInt8>) throws(Failure) {
        buffer += bytes
        if buffer.count >= Self.bufferByteCount { try flush() }
    }

    /// Makes the file durable, and gives it its name.
    func finish() throws(Failure) {
        try flush()
        guard let path else { return }
        do { try file.synchronize() } catch { throw Self.failure(path, systemReason(of: error)) }
        guard rename(draft, path) == 0 else { throw Self.failure(path, String(cString: strerror(errno))) }
    }

    /// Removes an incomplete file.
    func discard() { if path != nil { unlink(draft) } }

    private func flush() throws(Failure) {
        defer { buffer.removeAll(keepingCapacity: true) }
        guard let path else { return try writeOutput(buffer) }
        do { try file.write(contentsOf: Data(buffer)) } catch { throw Self.failure(path, systemReason(of: error)) }
    }

    private static func failure(_ path: String, _ reason: String) -> Failure {
        Failure(.failed, "\(path): cannot be written: \(reason)")
    }
}
