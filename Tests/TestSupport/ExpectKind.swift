public import SyncCore
public import Testing

/// Expects an error of `kind` (`nil` for any kind) whose message is one line.
@discardableResult
public func expectKind(
    _ kind: BackendError.Kind?, sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> some Any
) async -> BackendError? {
    let error = await #expect(throws: BackendError.self, sourceLocation: sourceLocation) { _ = try await body() }
    guard let error else { return nil }
    #expect(kind == nil || error.kind == kind, "\(error)", sourceLocation: sourceLocation)
    #expect(!error.description.contains("\n"), sourceLocation: sourceLocation)
    return error
}
