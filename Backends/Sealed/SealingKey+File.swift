#if Sealed
internal import SyncCore

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

extension SealingKey {
    /// Reads a key from a file that contains 64 hexadecimal digits, as printed by `openssl rand -hex 32`, or 32 raw
    /// bytes.
    ///
    /// - Throws: ``SealingKeyError`` if the file cannot be read, contains anything else, or is readable by other users
    ///   than its owner (`chmod 600` corrects that; not checked on Windows).
    public init(contentsOf path: String) throws(SealingKeyError) {
        let bytes: [UInt8]
        do {
            #if !os(Windows)
            var status = stat()
            guard stat(path, &status) == 0 else {
                throw SealingKeyError("\(path) cannot be read as a key: \(String(cString: strerror(errno)))")
            }
            guard status.st_mode & 0o077 == 0 else {
                throw SealingKeyError("\(path) is readable by other users: run chmod 600 on it and use a new key")
            }
            #endif
            bytes = Array(try Data(contentsOf: URL(filePath: path)))
        } catch let error as SealingKeyError {
            throw error
        } catch {
            throw SealingKeyError("\(path) cannot be read as a key: \(error)")
        }
        do {
            try self.init(bytes: bytes.count == Self.byteCount ? bytes : Self.fromHexadecimal(bytes))
        } catch {
            throw SealingKeyError("\(path): \(error)")
        }
    }

    private static func fromHexadecimal(_ text: [UInt8]) throws(SealingKeyError) -> [UInt8] {
        let end = text.lastIndex { !UInt8.whitespace.contains($0) }.map { $0 + 1 } ?? 0
        guard let bytes = Hexadecimal.bytes(text[..<end]), bytes.count == byteCount else {
            throw SealingKeyError("a key must be 64 hexadecimal digits or 32 bytes")
        }
        return bytes
    }
}

extension UInt8 {
    fileprivate static let whitespace = Array(" \t\r\n".utf8)
}
#endif
