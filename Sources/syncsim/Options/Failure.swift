import Entitlements
import Foundation

/// The failure of a command: one line for standard error, and an exit code for scripts.
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

/// Rejects a value of `option` outside `range`.
func check(_ option: String, _ number: Int, in range: ClosedRange<Int>) throws(Failure) {
    guard !range.contains(number) else { return }
    throw Failure(.usage, "\(option) must be \(range.lowerBound) to \(range.upperBound), not \(number)")
}

/// Reads a whole file, or a pipe.
func readFile(_ path: String) throws(Failure) -> [UInt8] {
    guard !path.isEmpty else { throw Failure(.usage, "the file name is empty") }
    do {
        let file = try FileHandle(forReadingFrom: URL(filePath: path))
        return Array(try file.readToEnd() ?? Data())
    } catch {
        let code: Failure.Code = [ENOENT, ENOTDIR].contains(errorNumber(of: error)) ? .notFound : .failed
        throw Failure(code, "\(path): cannot be read: \(systemReason(of: error))")
    }
}

/// Writes the whole file atomically, replacing an existing one.
func writeFile(_ bytes: [UInt8], to path: String) throws(Failure) {
    guard !path.isEmpty else { throw Failure(.usage, "the file name is empty") }
    do {
        try Data(bytes).write(to: URL(filePath: path), options: .atomic)
    } catch {
        throw Failure(.failed, "\(path): cannot be written: \(systemReason(of: error))")
    }
}

/// Writes to standard output. A full disk is reported as an error instead of crashing the process.
func writeOutput(_ text: String) throws(Failure) {
    do {
        try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    } catch {
        throw Failure(.failed, "standard output cannot be written: \(systemReason(of: error))")
    }
}

/// Writes a notice to standard error, ignoring failures.
func writeNotice(_ text: String) {
    try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
}

private func systemReason(of error: any Error) -> String {
    errorNumber(of: error).map { String(cString: strerror($0)) } ?? error.localizedDescription
}

/// The underlying error number of the system, if any.
private func errorNumber(of error: any Error) -> Int32? {
    if let error = error as? POSIXError { return error.code.rawValue }
    let error = error as NSError
    if error.domain == NSPOSIXErrorDomain { return Int32(error.code) }
    return error.userInfo[NSUnderlyingErrorKey].flatMap { $0 as? any Error }.flatMap { errorNumber(of: $0) }
}
