import ArgumentParser
import Entitlements
import Foundation
import SealedStorage
import SyncCore
import SyncCoreTesting

/// The options for wrappers around the store under test.
struct WrappingOptions: ParsableArguments {
    @Flag(help: "Test the store with retries of transient failures.")
    var retried = false

    @Option(
        help: ArgumentHelp(
            "Test the store with sealed values, under the key in this file: 64 hexadecimal digits or 32 bytes.",
            valueName: "keyfile"))
    var sealed: String?

    /// Returns the function that wraps a store. Reads the key, so that a wrong file is reported before any check runs.
    func wrapping() throws(Failure) -> @Sendable (any KeyValueBackend) -> any KeyValueBackend {
        // Two attempts: with more, hardly any of the injected failures would surface.
        let policy = RetryPolicy(maximumAttempts: 2, firstDelay: .milliseconds(1))
        let retried = retried
        guard let sealed else { return { retried ? $0.retrying(policy) : $0 } }
        let seal = try Self.sealing(under: sealed)
        return { seal(retried ? $0.retrying(policy) : $0) }
    }

    /// The same options for a child process.
    var arguments: [String] {
        (retried ? ["--retried"] : [])
            + (sealed.map { ["--sealed", URL(filePath: $0).path(percentEncoded: false)] } ?? [])
    }

    private static func sealing(
        under file: String
    ) throws(Failure) -> @Sendable (any KeyValueBackend) -> any KeyValueBackend {
        #if Sealed
        do {
            let keys = SealingKeys(try SealingKey(contentsOf: file))
            return { SealedBackend($0, keys: keys) }
        } catch {
            throw Failure(.usage, "--sealed: \(error)")
        }
        #else
        throw Failure(
            .usage,
            "--sealed: this syncsim was built without sealing; build it with "
                + "swift build --traits Sealed --product syncsim")
        #endif
    }
}

extension StoreUnderTest {
    /// The same store, wrapped by `wrap` whichever way it is opened.
    func wrapped(
        by wrap: @escaping @Sendable (any KeyValueBackend) -> any KeyValueBackend
    ) -> StoreUnderTest {
        func wrapping(_ opening: Opening?) -> Opening? {
            guard let opening else { return nil }
            return { wrap(try await opening()) }
        }
        var store = self
        store.backend = wrap(backend)
        store.reopen = wrapping(reopen)
        store.failing = wrapping(failing)
        store.wipe = wrapping(wipe)
        store.crash = wrapping(crash)
        if let backup {
            store.backup = {
                let putBack = try await backup()
                return { wrap(try await putBack()) }
            }
        }
        return store
    }
}
