import Entitlements
import Foundation

/// Reads and parses a file. Every error names the file.
func readDocument<Document>(_ path: String, _ parse: ([UInt8]) throws -> Document) throws -> Document {
    guard !path.isEmpty else { throw Failure(.usage, "a file name must not be empty") }
    let bytes: [UInt8]
    do {
        // A file handle can read a pipe, too.
        let file = try FileHandle(forReadingFrom: URL(filePath: path))
        bytes = Array(try file.readToEnd() ?? Data())
    } catch {
        throw Failure(reading: path, error)
    }
    do { return try parse(bytes) } catch let error as InputError { throw Failure(.failed, "\(path): \(error)") }
}

/// Reads a file of text.
func readText(_ path: String) throws -> String { try readDocument(path) { String(decoding: $0, as: UTF8.self) } }

/// Reads a regular file piece by piece. Every error names the file.
struct FilePieces {
    private let path: String
    private let file: FileHandle
    /// The size of the file.
    let byteCount: Int

    init(_ path: String) throws(Failure) {
        guard !path.isEmpty else { throw Failure(.usage, "a file name must not be empty") }
        do {
            file = try FileHandle(forReadingFrom: URL(filePath: path))
            let attributes = try FileManager.default.attributesOfItem(atPath: URL(filePath: path).path())
            guard attributes[.type] as? FileAttributeType == .typeRegular else {
                throw Failure(.failed, "\(path) must be a file, because it is read twice")
            }
            byteCount = (attributes[.size] as? NSNumber)?.intValue ?? 0
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure(reading: path, error)
        }
        self.path = path
    }

    /// The next piece; empty at the end.
    func next() throws(Failure) -> [UInt8] {
        do { return Array(try file.read(upToCount: 1 << 20) ?? Data()) } catch { throw Failure(reading: path, error) }
    }
}

/// Writes a file atomically: on an error nothing is written.
func writeFile(_ bytes: [UInt8], to path: String) throws(Failure) {
    do {
        try Data(bytes).write(to: URL(filePath: path), options: .atomic)
    } catch {
        throw Failure(.failed, "\(path): cannot be written: \(systemReason(of: error))")
    }
}

/// Writes to standard output. A full disk is an error, not a crash.
func writeOutput(_ bytes: some Sequence<UInt8>) throws(Failure) {
    do {
        try FileHandle.standardOutput.write(contentsOf: Data(bytes))
    } catch {
        throw Failure(.failed, "standard output cannot be written: \(systemReason(of: error))")
    }
}

/// Writes a line for the person at the terminal to standard error.
func warn(_ line: String) { FileHandle.standardError.write(Data("syncd: \(line)\n".utf8)) }

extension Failure {
    fileprivate init(reading path: String, _ error: any Error) {
        switch errorNumber(of: error) {
        case ENOENT, ENOTDIR: self.init(.notFound, "\(path): no such file")
        case EACCES, EPERM: self.init(.refused, "\(path): permission denied")
        case EISDIR: self.init(.failed, "\(path) must be a file, not a folder")
        default: self.init(.failed, "\(path): cannot be read: \(systemReason(of: error))")
        }
    }
}

func systemReason(of error: any Error) -> String {
    errorNumber(of: error).map { String(cString: strerror($0)) } ?? error.localizedDescription
}

/// The underlying errno value, if there is one.
private func errorNumber(of error: any Error) -> Int32? {
    if let error = error as? POSIXError { return error.code.rawValue }
    let error = error as NSError
    if error.domain == NSPOSIXErrorDomain { return Int32(error.code) }
    return error.userInfo[NSUnderlyingErrorKey].flatMap { $0 as? any Error }.flatMap { errorNumber(of: $0) }
}
