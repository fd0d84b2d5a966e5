import Entitlements
package import SyncService
import Synchronization

/// Writes refused tokens to the log: for each reason at most one line in ten seconds, because any client can send such
/// tokens.
package final class RefusedTokenLog: Sendable {
    /// The time without another line about the same reason.
    private static let pause = Duration.seconds(10)
    /// The number of reasons that are remembered.
    private static let capacity = 64

    private let write: @Sendable (String) -> Void
    private let instant: @Sendable () -> ContinuousClock.Instant
    private let reasons = Mutex<[String: (time: ContinuousClock.Instant, omittedCount: Int)]>([:])

    /// - Parameter write: writes one line.
    package init(
        instant: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now },
        write: @escaping @Sendable (String) -> Void
    ) {
        (self.instant, self.write) = (instant, write)
    }

    /// Writes a line, unless there was one about the same reason.
    package func add(_ token: RefusedToken) {
        let now = instant()
        let omittedCount = reasons.withLock { reasons -> Int? in
            if let known = reasons[token.reason], now - known.time < Self.pause {
                reasons[token.reason]?.omittedCount += 1
                return nil
            }
            let count = reasons[token.reason]?.omittedCount ?? 0
            if reasons.count >= Self.capacity { reasons.removeAll() }
            reasons[token.reason] = (now, 0)
            return count
        }
        guard let omittedCount else { return }
        let fields = [("issuer", token.issuer), ("kid", token.key), ("alg", token.algorithm), ("sub", token.subject)]
        let named = fields.compactMap { name, value in
            value.map { " \(name)=\"\(Self.quotable($0))\"" }
        }.joined()
        let others = omittedCount == 0 ? "" : " omitted=\(omittedCount)"
        write("token outcome=refused\(named) reason=\"\(Self.quotable(token.reason))\"\(others)")
    }

    private static func quotable(_ text: String) -> String {
        text.singleLine(atMost: 255).replacing("\"", with: "'")
    }
}
