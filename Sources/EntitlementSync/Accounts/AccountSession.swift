import Entitlements
import SyncCore
import Synchronization

/// One account on this device: where its ledgers lie, and what was read of them. A call takes the session that is
/// current when it begins and keeps to it, so that what began for one account cannot end with another's.
final class AccountSession: Sendable {
    let account: Account
    let keys: LedgerKeys
    let ledgers: LocalLedgers
    /// Whether the remote was met for this account.
    let hasMet = Mutex(false)

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
