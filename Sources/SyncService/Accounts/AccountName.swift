import EntitlementSync
import Entitlements
// Normalization is in the whole of it only.
import Foundation
import SyncCore

/// Which names a new account of a server may have.
///
/// Fewer than an `Account` may: what stands in a name can be seen, and what is seen is written in one way, so that
/// nobody makes an account that looks like another's.
enum AccountName {
    /// The rule, for whoever chose another.
    static let rule =
        "an account's name has 1 to 255 bytes, no space at its ends, only characters that are seen, and is in NFC"

    /// Whether a new account may have `name`.
    static func isFit(_ name: String) -> Bool {
        guard (try? Account(name)) != nil, (try? AccountRecord.key(of: name)) != nil,
            let first = name.unicodeScalars.first, let last = name.unicodeScalars.last
        else { return false }
        guard !first.properties.isWhitespace, !last.properties.isWhitespace else { return false }
        guard name.unicodeScalars.allSatisfy(isSeen) else { return false }
        return name.precomposedStringWithCanonicalMapping.utf8.elementsEqual(name.utf8)
    }

    private static func isSeen(_ scalar: Unicode.Scalar) -> Bool {
        guard !scalar.properties.isDefaultIgnorableCodePoint else { return false }
        return switch scalar.properties.generalCategory {
        case .control, .format, .privateUse, .surrogate, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}
