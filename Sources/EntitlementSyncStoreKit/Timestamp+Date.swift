package import Entitlements
package import Foundation

extension Timestamp {
    /// The date, rounded to milliseconds, the precision of what the App Store signs.
    package init(_ date: Date) { self.init(milliseconds: Int64((date.timeIntervalSince1970 * 1_000).rounded())) }
}

extension Date {
    /// The date of a timestamp.
    package init(_ timestamp: Timestamp) { self.init(timeIntervalSince1970: Double(timestamp.milliseconds) / 1_000) }
}
