import Entitlements
import SyncCore
import Synchronization

/// The keys and ledgers of one account on this device.
///
/// A call takes the current session when it starts and uses it to the end, so that it never mixes two accounts.
final class AccountSession: Sendable {
    let account: Account
    let keys: LedgerKeys
    let ledgers: LocalLedgers
    /// True if a sync with the remote is known to have happened for this account.
    let hasSynced = Mutex(false)

    init(
        _ account: Account, local: any KeyValueBackend, hasRemote: Bool, host: HostServices, catalog: Catalog,
        environment: EnvironmentID
    ) throws(EntitlementError) {
        self.account = account
        do { keys = try LedgerKeys(account) } catch { throw EntitlementError(error) }
        ledgers = LocalLedgers(
            backend: local, keys: keys, host: host, catalog: catalog, environment: environment, hasRemote: hasRemote)
    }
}
