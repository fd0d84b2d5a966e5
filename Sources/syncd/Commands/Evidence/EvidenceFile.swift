import ArgumentParser
import Entitlements
import Foundation
import StoreEvidence

/// Evidence as a file contains it.
struct EvidenceFile {
    /// The name for messages.
    let name: String
    let bytes: [UInt8]

    /// The longest file: the longest receipt or answer in base64, with white space.
    private static let maximumByteCount = 8 << 20

    /// Reads a file, or standard input if `path` is `-`.
    ///
    /// - Throws: `EvidenceError` for an empty file and for one that no evidence can be as long as.
    init(_ path: String) throws {
        if path == "-" {
            name = "standard input"
            bytes = Array(try FileHandle.standardInput.readToEnd() ?? Data())
        } else {
            name = path.singleLine
            bytes = try readDocument(path) { $0 }
        }
        guard !bytes.isEmpty else { throw EvidenceError(.format, "\(name) is empty") }
        guard bytes.count <= Self.maximumByteCount else {
            throw EvidenceError(
                .size, "\(name) has \(bytes.count) bytes; evidence has at most \(Self.maximumByteCount)")
        }
    }

    /// The content without white space around it.
    var text: String { String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines) }

    /// Returns the bytes of a receipt, which the file contains as they are or in base64.
    func receipt() throws(EvidenceError) -> [UInt8] {
        // DER begins with the tag of a sequence; base64 text never does.
        bytes.first == 0x30 ? bytes : try receiptBytes(base64: text)
    }

    /// The text that Google Play signed, and its signature, from a JSON object with the members `data` and `signature`.
    func purchaseOfGooglePlay() throws(EvidenceError) -> (data: String, signature: String) {
        let value: JSON
        do throws(InputError) { value = try JSON(parsing: bytes) } catch {
            throw EvidenceError(.format, "\(name) is not valid JSON: \(error)")
        }
        guard let data = value["data"]?.string, let signature = value["signature"]?.string else {
            throw EvidenceError(.format, "\(name) must be a JSON object with the texts \"data\" and \"signature\"")
        }
        return (data, signature)
    }
}

extension EvidenceKind {
    /// Reads the value of `--kind`.
    init(argument: String, among kinds: [EvidenceKind]) throws(Failure) {
        guard let kind = kinds.first(where: { $0.rawValue == argument }) else {
            let names = kinds.map(\.rawValue).joined(separator: ", ")
            throw Failure(.usage, "--kind must be one of \(names), not \"\(argument.singleLine)\"")
        }
        self = kind
    }
}
