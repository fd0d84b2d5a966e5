#if PostgreSQL
import Foundation
import Testing

/// Waits until `condition` holds, at most for a minute.
func waitUntil(
    _ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
) async throws {
    let limit = ContinuousClock.now + .seconds(60)
    while try await !condition() {
        try #require(ContinuousClock.now < limit, what, sourceLocation: sourceLocation)
        await Task.yield()
    }
}
#endif
