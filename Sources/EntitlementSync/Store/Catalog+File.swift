public import Entitlements
#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension Catalog {
    /// Reads a catalogue from a JSON file, or from the StoreKit configuration that Xcode writes (`.storekit`, which
    /// is told by its content too).
    ///
    /// - Parameters:
    ///   - url: the file.
    ///   - supplement: what a StoreKit configuration does not say; nothing for a catalogue of our own.
    /// - Throws: `InputError` that names the file, and in it the line or path of what is wrong.
    public static func json(at url: URL, supplement: StoreKitSupplement = StoreKitSupplement())
        throws(InputError) -> Catalog
    {
        let bytes: Data
        do { bytes = try Data(contentsOf: url) } catch {
            throw InputError(path: url.path, reason: "it cannot be read: \(error)")
        }
        do {
            return url.pathExtension == "storekit"
                ? try Catalog(storeKitConfiguration: bytes, supplement: supplement)
                : try Catalog(anyJSON: bytes, supplement: supplement)
        } catch {
            throw InputError(path: error.path.isEmpty ? url.path : "\(url.path): \(error.path)", reason: error.reason)
        }
    }
}
