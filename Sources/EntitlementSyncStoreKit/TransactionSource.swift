/// The transactions of the App Store on this device. `StoreKitSource` reads them from StoreKit; tests use a fake.
public protocol TransactionSource: Sendable {
    /// Passes on transactions that change from now on: purchases that were approved later or made on other devices,
    /// renewals, refunds. Returns when its task is cancelled.
    func updates(_ receive: @Sendable (StoreKitTransaction) async -> Void) async

    /// The transactions that the app has not finished yet.
    func unfinished() async -> [StoreKitTransaction]

    /// The user's history: all transactions that StoreKit keeps. It may lack consumables.
    func history() async -> [StoreKitTransaction]

    /// Informs StoreKit that the app has delivered what was bought. Repeating it has no effect.
    func finish(_ transaction: StoreKitTransaction) async

    /// Asks the App Store for the user's transactions, after the user has asked to restore purchases. The user may have
    /// to sign in.
    ///
    /// - Throws: The error of StoreKit, for example because the user cancelled.
    func refresh() async throws
}
