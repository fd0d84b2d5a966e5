import EntitlementSync
import Entitlements
// `precomposedStringWithCanonicalMapping` is missing in FoundationEssentials.
import Foundation
import SyncCore

/// The rules for account names on a server.
///
/// A new account's name is restricted further than `Account` itself requires: every character is visible and the
/// spelling is unique, so that no account can be made to look like another.
enum AccountName {
    /// The rule for new names, as the refusal states it.
    static let rule =
        "an account's name must be 1 to 255 bytes of visible characters in NFC, without spaces at either end, and not "
        + "\"anonymous\", \"operator\" or \"self\""

    /// Names that mean something else in paths and logs.
    private static let reserved: Set = ["operator", "self"]

    /// Returns `true` if a new account may be called `name`.
    static func isAllowed(_ name: String) -> Bool {
        guard canExist(name), !reserved.contains(name), let first = name.unicodeScalars.first,
            let last = name.unicodeScalars.last
        else { return false }
        guard !first.properties.isWhitespace, !last.properties.isWhitespace else { return false }
        guard name.unicodeScalars.allSatisfy(isVisible) else { return false }
        return name.precomposedStringWithCanonicalMapping.utf8.elementsEqual(name.utf8)
    }

    /// Returns `true` if an account called `name` can exist. An account that an earlier version created may have a name
    /// that is not accepted for new accounts.
    static func canExist(_ name: String) -> Bool {
        (try? Account(name)) != nil && (try? AccountRecord.key(of: name)) != nil
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        guard !scalar.properties.isDefaultIgnorableCodePoint else { return false }
        return switch scalar.properties.generalCategory {
        case .control, .format, .privateUse, .surrogate, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}
