/// An action of a device, of a store that sells, of support, or a fault of a server.
package enum ServiceAction: Codable, Hashable, Sendable {
    /// Creates the account of the device's name, or logs in if the owner has it already.
    case signUp(device: Int)
    /// Logs in with the owner's password.
    case logIn(device: Int)
    /// Sends a wrong password.
    case guess(device: Int)
    /// Sends one refresh token twice at the same time.
    case refreshTwice(device: Int)
    case logOut(device: Int, everywhere: Bool)
    case changePassword(device: Int)
    case renewCodes(device: Int)
    /// Sets a new password with a recovery code.
    case recover(device: Int)
    /// Logs `device` in without a keyboard; `approver` approves it.
    case approve(device: Int, approver: Int)
    case erase(device: Int)
    /// Writes an entry of the account.
    case write(device: Int, key: Int)
    case read(device: Int, key: Int)
    /// Uses every access token, refresh token and password that the name ever had.
    case tryOldCredentials(device: Int)
    /// Brings the device's purchases and the account's into step.
    case sync(device: Int)
    /// Buys on the device: the store's statement is recorded and sent with the next sync.
    case buy(device: Int, sale: Int)
    /// Sends the store's statement to the server, also one of another buyer.
    case present(device: Int, sale: Int, isRestore: Bool)
    /// The store notifies the server of a sale.
    case notify(sale: Int)
    /// The store refunds a sale and notifies the server.
    case refund(sale: Int)
    /// Support records a sale for the account of the device's name.
    case support(device: Int, sale: Int, isTransfer: Bool)
    /// Follows the event stream until the end of the run.
    case watch(device: Int)
    case grant(device: Int)
    /// Kills a server at one of its next operations on the store, and starts it again after a pause.
    case kill(server: Int, afterOperations: Int, pause: Int64)
    /// Stops all work of a server for this many milliseconds.
    case freeze(server: Int, milliseconds: Int64)
    case moveClock(server: Int, milliseconds: Int64)
    case rotateKeys(removesFormer: Bool)
    /// Kills the primary of the cluster during one of its next writes.
    case failOver(afterWrites: Int, promotion: Int64)
    case switchOver(promotion: Int64)

    /// The devices that take part.
    var devices: [Int] {
        switch self {
        case .signUp(let device), .logIn(let device), .guess(let device), .refreshTwice(let device),
            .logOut(let device, _), .changePassword(let device), .renewCodes(let device), .recover(let device),
            .erase(let device), .write(let device, _), .read(let device, _), .tryOldCredentials(let device),
            .sync(let device), .buy(let device, _), .present(let device, _, _), .support(let device, _, _),
            .watch(let device), .grant(let device):
            [device]
        case .approve(let device, let approver): [device, approver]
        case .notify, .refund, .kill, .freeze, .moveClock, .rotateKeys, .failOver, .switchOver: []
        }
    }

    /// The server that the action disturbs.
    var server: Int? {
        switch self {
        case .kill(let server, _, _), .freeze(let server, _), .moveClock(let server, _): server
        default: nil
        }
    }
}
