import Entitlements
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Notifications that are read from a store's history")
struct NotificationIntakeTests {
    @Test("They count for the owner, and leave the trust policy of the account as the server has stated it")
    func policy() async throws {
        let stage = try await EvidenceStage(.verified) { $0.appStore = PlainStoreVerifier() }
        let token = try #require(await stage.token(of: stage.alice))
        _ = await stage.rights(of: stage.alice)
        var configuration = stage.service.configuration
        configuration.policy = .trusted
        let intake = try await NotificationIntake(
            stage.store, configuration, host: stage.clock.host, onError: { _ in })
        var sale = Sale("1", at: stage.now)
        sale.token = token
        #expect(try await intake.receive(signedPayload: "\(try StoreMint.jws(sale))") == .recorded)
        #expect(try await stage.serverLedger(of: stage.alice).policy == .verified)
        #expect(await stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("A clock that was set back is refused before anything is read")
    func clock() async throws {
        let stage = try await EvidenceStage(.verified)
        stage.clock.advance(seconds: -3_600)
        let error = await #expect(throws: SupportError.self) {
            try await NotificationIntake(
                stage.store, stage.service.configuration, host: stage.clock.host, onError: { _ in })
        }
        #expect(error?.kind == .clockIsBehind)
    }
}
