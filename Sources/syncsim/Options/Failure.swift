import Entitlements
import Foundation

/// A command failed: one line for standard error, and the exit code that tells a script what to do.
struct Failure: Error, CustomStringConvertible {
    let code: Code
    let message: String

    enum Code: Int32 {
        case failed = 1
        case usage = 2
        case notFound = 3
    }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    init(_ error: any Error) {
        self = error as? Failure ?? Failure(.failed, "\(error)")
    }

    var description: String { message }
}

/// Reads a whole file, or a pipe.
func readFile(_ path: String) throws(Failure) -> [UInt8] {
    guard !path.isEmpty else { throw Failure(.usage, "the name of a file is empty") }
    do {
        let file = try FileHandle(forReadingFrom: URL(filePath: path))
        return Array(try file.readToEnd() ?? Data())
    } catch {
        let code: Failure.Code = [ENOENT, ENOTDIR].contains(errorNumber(of: error)) ? .notFound : .failed
        throw Failure(code, "\(path): it cannot be read: \(systemReason(of: error))")
    }
}

/// Writes the whole file, in the place of the one that is there, or leaves that as it is.
func writeFile(_ bytes: [UInt8], to path: String) throws(Failure) {
    guard !path.isEmpty else { throw Failure(.usage, "the name of a file is empty") }
    do {
        try Data(bytes).write(to: URL(filePath: path), options: .atomic)
    } catch {
        throw Failure(.failed, "\(path): it cannot be written: \(systemReason(of: error))")
    }
}

/// Writes to standard output. A full disk is an error, and no reason to crash.
func writeOutput(_ text: String) throws(Failure) {
    do {
        try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    } catch {
        throw Failure(.failed, "standard output cannot be written: \(systemReason(of: error))")
    }
}

/// Writes what is no result. Nobody misses it when standard error is gone.
func writeNotice(_ text: String) {
    try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
}

private func systemReason(of error: any Error) -> String {
    errorNumber(of: error).map { String(cString: strerror($0)) } ?? error.localizedDescription
}

/// The system's error number underneath, where there is one.
private func errorNumber(of error: any Error) -> Int32? {
    if let error = error as? POSIXError { return error.code.rawValue }
    let error = error as NSError
    if error.domain == NSPOSIXErrorDomain { return Int32(error.code) }
    return error.userInfo[NSUnderlyingErrorKey].flatMap { $0 as? any Error }.flatMap { errorNumber(of: $0) }
}
