import Foundation
import Synchronization

/// Formats the `Date` of a response (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
enum DateField {
    private static let latest = Mutex((second: time_t.min, text: ""))

    /// The date field for a time in milliseconds since 1970 UTC; a negative one counts as 0. The text is cached for its
    /// second.
    static func text(milliseconds: Int64) -> String {
        let second = time_t(max(0, milliseconds) / 1_000)
        return latest.withLock { latest in
            if latest.second != second {
                let text = TimeText.bytes(of: second, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r)
                latest = (second, String(decoding: text, as: UTF8.self))
            }
            return latest.text
        }
    }
}

/// Formats times by the C library, in English: the process never sets another locale.
enum TimeText {
    /// The text of a second since 1970 UTC.
    ///
    /// - Parameters:
    ///   - format: The format, as for `strftime`.
    ///   - convert: `gmtime_r` or `localtime_r`.
    static func bytes(
        of second: time_t, _ format: String,
        _ convert: (UnsafePointer<time_t>, UnsafeMutablePointer<tm>) -> UnsafeMutablePointer<tm>?
    ) -> [UInt8] {
        var (second, parts) = (second, tm())
        _ = convert(&second, &parts)
        var text = [CChar](repeating: 0, count: 64)
        return text[..<strftime(&text, text.count, format, &parts)].map { UInt8(bitPattern: $0) }
    }
}
