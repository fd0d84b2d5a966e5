import EntitlementSync
import Entitlements
import SyncCore
import Testing

@testable import SyncService

@Suite("The record of owners")
struct OwnershipTests {
    private let (alice, bob, carol): (Account, Account, Account)
    private let line = TransactionReference(store: .appStore, id: "1")
    private let part = TransactionReference(store: .appStore, id: "2")

    init() throws { (alice, bob, carol) = (try Account("alice"), try Account("bob"), try Account("carol")) }

    private func owner(_ account: Account, since: Int64 = 0, attempt: String? = nil) -> Ownership.Owner {
        Ownership.Owner(account: AccountIdentity(account), since: since, attempt: attempt)
    }

    @Test("A client claims what no other living account claims or has proved")
    func claim() throws {
        let (first, second) = (owner(alice, attempt: "1"), owner(alice, since: 5, attempt: "2"))
        let claimed = Ownership(claim: first)
        #expect(Ownership().claim(first, owners: [], isErased: false) == .claimed(claimed))
        #expect(claimed.claim(first, owners: [], isErased: false) == .held)
        let other = owner(bob, since: 5, attempt: "3")
        #expect(claimed.claim(other, owners: [], isErased: false) == .refused(by: first))
        #expect(claimed.claim(other, owners: [], isErased: true) == .claimed(Ownership(claim: other)))
        var renewed = second
        renewed.isRenewal = true
        #expect(claimed.claim(second, owners: [], isErased: false) == .claimed(Ownership(claim: renewed)))
        #expect(Ownership(claim: renewed).claim(second, owners: [], isErased: false) == .held)
        // A proof decides, whatever the claim says.
        #expect(claimed.claim(other, owners: [owner(bob)], isErased: false) == .held)
        #expect(claimed.claim(first, owners: [owner(bob)], isErased: false) == .refused(by: nil))
    }

    @Test("A claim expires after a minute")
    func expire() {
        let claimed = Ownership(claim: owner(alice, since: 1_000, attempt: "1"), line: LineName(line))
        #expect(claimed.expire(by: owner(bob, since: 60_999)) == nil)
        let next = claimed.expire(by: owner(bob, since: 61_000))
        #expect(next == Ownership(claim: owner(bob, since: 61_000), line: LineName(line)))
        #expect(Ownership(owners: [owner(alice)]).expire(by: owner(bob, since: 61_000)) == nil)
    }

    private func confirm(
        _ record: Ownership, _ transaction: TransactionReference, former: [Ownership.Owner] = []
    ) -> Ownership.Confirmation {
        record.confirm(transaction, in: line, of: alice, former: former, now: 7)
    }

    @Test("A proof names the line, and then refuses the claims of others")
    func confirm() {
        let proved = Ownership(line: LineName(line))
        #expect(confirm(Ownership(), part) == .write(proved))
        #expect(confirm(proved, part) == .done)
        #expect(confirm(Ownership(claim: owner(alice, attempt: "1")), part) == .write(proved))
        let claimed = owner(bob, attempt: "1")
        let displaced = Ownership(claim: claimed, line: LineName(line))
        #expect(confirm(Ownership(claim: claimed), part) == .write(displaced))
        #expect(confirm(displaced, part) == .refuse(bob, proved))
        // The line's own transaction needs no name.
        let owned = Ownership(owners: [owner(alice)])
        #expect(confirm(owned, line) == .done)
        #expect(confirm(Ownership(claim: claimed, owners: [owner(alice)]), line) == .refuse(bob, owned))
    }

    @Test("The owner of another line to which a transaction belonged loses it like a claim")
    func otherLine() {
        let former = Ownership(owners: [owner(bob)])
        let moved = Ownership(claim: owner(bob, since: 7), owners: [owner(bob)], line: LineName(line))
        #expect(confirm(former, part) == .write(moved))
        #expect(confirm(moved, part) == .refuse(bob, Ownership(owners: [owner(bob)], line: LineName(line))))
        let third = TransactionReference(store: .appStore, id: "3")
        let other = Ownership(line: LineName(third))
        let next = Ownership(claim: owner(carol, since: 7), line: LineName(line))
        #expect(confirm(other, part, former: [owner(carol)]) == .write(next))
        #expect(confirm(other, part, former: [owner(alice)]) == .write(Ownership(line: LineName(line))))
        let own = Ownership(owners: [owner(alice)], line: LineName(third))
        let back = Ownership(claim: owner(carol, since: 7), owners: [owner(alice)])
        #expect(confirm(own, line, former: [owner(carol)]) == .write(back))
    }

    @Test("A transfer takes the line from all owners, and starts the pause only if it is a restore")
    func transfer() {
        let record = Ownership(claim: owner(carol), owners: [owner(alice), owner(bob)], transferred: 3)
        let restored = record.transfer(to: carol, isRestore: true, actor: nil, facts: [], auditCount: 3, now: 9)
        #expect(restored.owners == [owner(carol, since: 9)] && restored.transferred == 9)
        #expect(restored.transfer?.from == [AccountIdentity(alice), AccountIdentity(bob)])
        #expect(restored.claim == record.claim)
        let moved = record.transfer(to: carol, isRestore: false, actor: nil, facts: [], auditCount: 3, now: 9)
        #expect(moved.transferred == 3)
    }

    @Test("An account that is erased leaves nothing in a record, and the last owner takes its pause along")
    func release() {
        let record = Ownership(
            claim: owner(alice), owners: [owner(alice), owner(bob)], transferred: 3, line: LineName(line))
        let next = Ownership(owners: [owner(bob)], transferred: 3, line: LineName(line))
        #expect(record.release(alice, isLineFree: false) == next)
        #expect(next.release(bob, isLineFree: true).isEmpty)
        #expect(next.release(carol, isLineFree: false) == next)
    }
}
