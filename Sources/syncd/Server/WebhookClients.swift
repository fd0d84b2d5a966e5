import CurlTransport
import SyncProtocol
import SyncService

/// The HTTP clients for webhooks. Those of different networks share no connections.
enum WebhookClients {
    /// Returns a function that returns the client of a network.
    static func make() throws -> @Sendable (WebhookEndpoint.Network) -> any HTTPTransport {
        let (anywhere, publicOnly, privateOnly) = (
            try client(.any), try client(.publicOnly), try client(.privateOnly)
        )
        return { network in
            switch network {
            case .any: anywhere
            case .publicOnly: publicOnly
            case .privateOnly: privateOnly
            }
        }
    }

    private static func client(_ addresses: CurlClient.Configuration.Addresses) throws(Failure) -> CurlClient {
        var configuration = CurlClient.Configuration()
        configuration.addresses = addresses
        configuration.ignoresRest = true
        // A proxy would connect to any address.
        configuration.proxy = .none
        configuration.userAgent = "syncd/\(Version.number)"
        configuration.maximumHeaderByteCount = 16 << 10
        do throws(TransportError) { return try CurlClient(configuration) } catch {
            throw Failure(.failed, error.message)
        }
    }
}
