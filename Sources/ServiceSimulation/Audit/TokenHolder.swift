/// The account of a session.
struct TokenHolder: Hashable {
    var name: String
    var incarnation: String
}
