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
    /// Reads an entry, and writes it only if it is unchanged.
    case replace(device: Int, key: Int)
    case delete(device: Int, key: Int)
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
    /// Stops a server as SIGTERM does, and starts it again after a pause in milliseconds.
    case stop(server: Int, pause: Int64)
    /// Lets `perMille` thousandths of all operations on the store fail for this many milliseconds.
    case failStore(perMille: Int, milliseconds: Int64)
    /// Lets the store forget the changes so far.
    case expireCursors
    /// Kills the next act of support at one of its operations on the store.
    case interruptSupport(afterOperations: Int)
    /// Records a sale on the device without evidence, and sends it with the next sync.
    case report(device: Int, sale: Int)
    /// Names the account in a sale that is still to be made, by a token of the account.
    case nameOwner(device: Int, sale: Int)
    /// The store reverses a refund and notifies the server.
    case reverseRefund(sale: Int)
    /// Sends statements about a sale that no store has signed.
    case forge(device: Int, sale: Int)
    /// Spends a unit. Equal numbers are one spend.
    case use(device: Int, spend: Int)
    /// Asks for a content session, and opens paths with it and with the former ones.
    case openContent(device: Int)
    /// Writes many entries without a pause.
    case flood(device: Int, count: Int)
    /// Sends many wrong passwords, one after another or all at once.
    case guessOften(device: Int, count: Int, isParallel: Bool)
    /// Sends the first statement of the store about a sale, from before a refund, or long after the sale.
    case presentFormer(device: Int, sale: Int, isRestore: Bool)
    /// A program beside the servers asks the store for the last statements about all sales, and records them.
    case catchUp
    /// Starts a server again with the later configuration of the scenario.
    case reconfigure(server: Int)
    /// Stops all work of a server for this many milliseconds, before one of its next writes to the store.
    case suspend(server: Int, afterWrites: Int, milliseconds: Int64)
    /// Lets `perMille` thousandths of all calls of the projection's database fail for this many milliseconds.
    case failProjection(perMille: Int, milliseconds: Int64)
    /// Kills the server that writes rows, before or after one of the next transactions, and starts it again.
    case killProjector(afterTransactions: Int, pause: Int64)
    /// Stops all work of the server that writes rows, before one of the next transactions.
    case freezeProjector(afterTransactions: Int, milliseconds: Int64)
    /// Lets the receiver of events answer with errors for this many milliseconds.
    case failReceiver(milliseconds: Int64)
    /// A program beside the servers derives all rows again. It may be killed at any operation.
    case reindex(afterOperations: Int?)

    /// The devices that take part.
    var devices: [Int] {
        switch self {
        case .signUp(let device), .logIn(let device), .guess(let device), .refreshTwice(let device),
            .logOut(let device, _), .changePassword(let device), .renewCodes(let device), .recover(let device),
            .erase(let device), .write(let device, _), .read(let device, _), .tryOldCredentials(let device),
            .replace(let device, _), .delete(let device, _),
            .sync(let device), .buy(let device, _), .present(let device, _, _), .support(let device, _, _),
            .watch(let device), .grant(let device), .report(let device, _), .nameOwner(let device, _),
            .forge(let device, _), .use(let device, _), .openContent(let device), .flood(let device, _),
            .guessOften(let device, _, _), .presentFormer(let device, _, _):
            [device]
        case .approve(let device, let approver): [device, approver]
        case .notify, .refund, .reverseRefund, .catchUp, .kill, .freeze, .moveClock, .rotateKeys, .failOver,
            .switchOver, .reconfigure, .stop, .failStore, .expireCursors, .interruptSupport, .suspend, .failProjection,
            .killProjector, .freezeProjector, .failReceiver, .reindex:
            []
        }
    }

    /// The server that the action disturbs.
    var server: Int? {
        switch self {
        case .kill(let server, _, _), .freeze(let server, _), .moveClock(let server, _), .reconfigure(let server),
            .stop(let server, _), .suspend(let server, _, _):
            server
        default: nil
        }
    }

    /// The sale that the action is about.
    var sale: Int? {
        switch self {
        case .buy(_, let sale), .present(_, let sale, _), .notify(let sale), .refund(let sale),
            .support(_, let sale, _), .report(_, let sale), .nameOwner(_, let sale), .reverseRefund(let sale),
            .forge(_, let sale), .presentFormer(_, let sale, _):
            sale
        default: nil
        }
    }

    /// The action at the server that has the number of `server` once server `removed` is gone; `nil` if it disturbs
    /// that server.
    func removingServer(_ removed: Int) -> ServiceAction? {
        guard let server, server >= removed else { return self }
        guard server > removed else { return nil }
        return switch self {
        case .kill(_, let count, let pause): .kill(server: server - 1, afterOperations: count, pause: pause)
        case .freeze(_, let milliseconds): .freeze(server: server - 1, milliseconds: milliseconds)
        case .moveClock(_, let milliseconds): .moveClock(server: server - 1, milliseconds: milliseconds)
        case .stop(_, let pause): .stop(server: server - 1, pause: pause)
        case .reconfigure: .reconfigure(server: server - 1)
        case .suspend(_, let count, let milliseconds):
            .suspend(server: server - 1, afterWrites: count, milliseconds: milliseconds)
        default: self
        }
    }
}
