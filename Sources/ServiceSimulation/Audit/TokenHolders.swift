import Entitlements
import SyncService

/// The account of a session, as an answer named it.
struct TokenHolder: Hashable {
    var name: String
    var incarnation: String
}

/// The accounts of all access tokens, as the answers named them.
struct TokenHolders {
    private var holders: [String: TokenHolder] = [:]

    mutating func didAnswer(_ body: JSON?) {
        guard let token = body?["access_token"]?.string, let name = body?["account"]?.string,
            let incarnation = body?["incarnation"]?.string
        else { return }
        holders[token] = TokenHolder(name: name, incarnation: incarnation)
    }

    /// The account whose token the request has.
    func holder(of delivery: Delivery) -> TokenHolder? { delivery.bearer.flatMap { holders[$0] } }
}
