public import Entitlements
#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension Catalog {
    /// Reads a catalogue from a JSON file.
    ///
    /// - Throws: `InputError` that names the file, and in it the line or path of what is wrong.
    public static func json(at url: URL) throws(InputError) -> Catalog {
        let bytes: Data
        do { bytes = try Data(contentsOf: url) } catch {
            throw InputError(path: url.path, reason: "it cannot be read: \(error)")
        }
        do { return try Catalog(json: bytes) } catch {
            throw InputError(path: error.path.isEmpty ? url.path : "\(url.path): \(error.path)", reason: error.reason)
        }
    }
}
