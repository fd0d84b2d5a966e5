#if PostgreSQL
import TestSupport
import Testing

/// Waits until `condition` holds.
func waitUntil(
    _ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
) async throws {
    let limit = ContinuousClock.now + Patience.limit
    while try await !condition() {
        try #require(ContinuousClock.now < limit, what, sourceLocation: sourceLocation)
        await Task.yield()
    }
}
#endif
