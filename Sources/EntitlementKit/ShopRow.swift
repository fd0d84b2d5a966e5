import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
public import Foundation

extension Shop {
    /// A product on a shop page.
    public struct Row: Hashable, Sendable, Identifiable {
        /// The offer to show for a product.
        public enum Offer: Hashable, Sendable {
            /// The product needs an account: offer the log-in.
            case logIn
            /// This device has never reached the account's purchases: offer to restore. Otherwise a product may be
            /// bought twice.
            case restore
            /// A one-time purchase. For a consumable, `unitsLeft` is the balance.
            case buy(unitsLeft: Int64?)
            /// A new subscription, or one that has ended.
            case subscribe
            /// More time. A purchase now is appended to the current end.
            case renew(until: Date, daysRemaining: Int)
            /// A subscription that the App Store renews. `willRenew` is `nil` if the App Store did not report it.
            case subscribed(until: Date, daysRemaining: Int, willRenew: Bool?)
            /// An upgrade or a downgrade of the active subscription.
            case change(from: String)
            /// The product is owned.
            case owned
            /// The purchase awaits approval. It is not bought yet.
            case pending
        }

        /// The product's ID in the App Store and in the catalogue.
        public var id: String
        /// The catalogue's name in the user's language, or else the App Store's name, or else the catalogue's English
        /// name, or else the ID.
        public var name: String
        /// The price with its currency, in the words of the App Store. `nil` without StoreKit, until the App Store has
        /// answered, and for a product that it does not offer: see ``Shop/missingProducts``.
        public var price: String?
        /// The offer.
        public var offer: Offer
    }
}

extension Shop.Row {
    init(_ row: EntitlementModel.Row, _ offer: StoreKitOffer?, language: String) {
        id = row.product.id.rawValue
        name = row.product.names[language] ?? offer?.name ?? row.product.name(in: language)
        price = offer?.price
        self.offer =
            switch row.offer {
            case .signIn: .logIn
            case .restore: .restore
            case .buy(let units): .buy(unitsLeft: units)
            case .subscribe: .subscribe
            case .renew(let until, let days): .renew(until: Date(until), daysRemaining: days)
            case .subscribed(let until, let days, let willRenew):
                .subscribed(until: Date(until), daysRemaining: days, willRenew: willRenew)
            case .change(let product): .change(from: product.rawValue)
            case .owned: .owned
            case .pending: .pending
            }
    }
}
