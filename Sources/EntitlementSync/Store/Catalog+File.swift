public import Entitlements
#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension Catalog {
    /// Reads a catalogue from a JSON file or from a StoreKit configuration that Xcode writes (`.storekit`).
    ///
    /// A StoreKit configuration is also recognized by its content, whatever the file's extension.
    ///
    /// - Parameters:
    ///   - url: The location of the file.
    ///   - supplement: The settings that a StoreKit configuration cannot express. Pass nothing for a catalogue in this
    ///     package's own format.
    /// - Throws: `InputError` with the file, and the line or path of the mistake inside it.
    public static func json(at url: URL, supplement: StoreKitSupplement = StoreKitSupplement())
        throws(InputError) -> Catalog
    {
        let bytes: Data
        do { bytes = try Data(contentsOf: url) } catch {
            let isMissing = (error as? CocoaError)?.code == .fileReadNoSuchFile
            throw InputError(
                path: url.path, reason: isMissing ? "there is no such file" : "the file cannot be read: \(error)")
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
