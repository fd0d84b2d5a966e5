package import Entitlements
#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

extension Timestamp {
    /// The date, rounded to milliseconds, the precision of what the App Store signs. A date outside of the years 1 to
    /// 9999 becomes the nearest instant in range; one that is not a number becomes the earliest.
    package init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1_000).rounded()
        let earliest = Double(Timestamp.earliest.milliseconds)
        let latest = Double(Timestamp.latest.milliseconds)
        self.init(milliseconds: Int64(Double.minimum(latest, Double.maximum(earliest, milliseconds))))
    }
}

extension Date {
    /// The date of a timestamp.
    package init(_ timestamp: Timestamp) { self.init(timeIntervalSince1970: Double(timestamp.milliseconds) / 1_000) }
}
