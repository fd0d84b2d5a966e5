import HummingbirdCore

/// What is left of a request whose body nobody wants.
enum RemainingParts {
    /// Skips it to its end.
    ///
    /// - Throws: where the connection ends before.
    static func skip(of request: Request) async throws {
        try await request.body.consumeWithCancellationOnInboundClose { rest in
            for try await _ in rest {}
        }
    }
}
