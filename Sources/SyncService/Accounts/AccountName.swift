import EntitlementSync
import Entitlements
// The normalization forms are missing in FoundationEssentials.
import Foundation
import SyncCore

/// The rules for account names on a server.
///
/// A new account's name is restricted further than `Account` itself requires: every character is visible, and its
/// letters are composed. Names of password accounts that ``folded(_:)`` maps to one text are one name, see
/// ``AccountAliases``. The subjects of another issuer are compared as bytes.
enum AccountName {
    /// Names that mean something else in paths and logs, folded.
    private static let reserved: Set = ["anonymous", "operator", "self"]

    /// The text that all spellings of a name share.
    ///
    /// Case is ignored, as are the forms in which the same letters can be stored: composed or not, full-width, as a
    /// ligature. The mappings are those of Unicode's NFKC_Casefold. But an `i` folds to the same letter with and
    /// without its dot, because the case mappings of Turkish and of other languages differ in it. Folding a folded name
    /// again does not change it.
    static func folded(_ name: String) -> String {
        // Upper case joins letters that have several lower-case forms, such as ß and ss.
        let cased = decomposed(name).lowercased().uppercased().lowercased()
        var folded = ""
        var isAfterI = false
        for scalar in decomposed(cased).unicodeScalars {
            if scalar.properties.canonicalCombiningClass == .notReordered {
                isAfterI = scalar == "i"
            } else if isAfterI, scalar == "\u{307}" {
                continue
            }
            folded.unicodeScalars.append(scalar)
        }
        return composed(folded)
    }

    /// The letters of a text without marks, each followed by its marks in canonical order.
    private static func decomposed(_ text: String) -> String {
        // Foundation orders only the marks that were separate before.
        text.decomposedStringWithCompatibilityMapping.decomposedStringWithCompatibilityMapping
    }

    /// A name as a new account stores it: with composed letters. It looks as it was typed.
    static func composed(_ name: String) -> String {
        let composed = name.precomposedStringWithCanonicalMapping
        // Foundation composes accents on some ideographs beyond U+FFFF to other letters. Such a name stays as it is.
        return composed == name ? composed : name
    }

    /// The reason for which a new account cannot have a name, in words for its owner; `nil` if it can.
    static func objection(to name: String) -> String? {
        guard let first = name.unicodeScalars.first, let last = name.unicodeScalars.last else {
            return "an account needs a name"
        }
        if reserved.contains(folded(name)) { return "the name \"\(name)\" is reserved; choose another name" }
        guard name.unicodeScalars.allSatisfy(isVisible) else {
            return "this name has a character that names cannot have; choose another name"
        }
        if first.properties.isWhitespace || last.properties.isWhitespace {
            return "a name cannot begin or end with a space; remove it"
        }
        guard canExist(name), folded(name).utf8.count <= maximumIdentifierByteCount else {
            return "this name is too long; choose a shorter one"
        }
        guard composed(name).utf8.elementsEqual(name.utf8) else { return "write the name in composed form (NFC)" }
        return nil
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
