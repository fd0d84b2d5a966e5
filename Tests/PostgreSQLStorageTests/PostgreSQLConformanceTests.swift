#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The conformance checks of a PostgreSQL store")
struct PostgreSQLConformanceTests {
    @Test("pass, with killed processes, restored dumps and a server that fails")
    func conformance() async throws {
        let report = await expectConformance(of: "PostgreSQL") { try TestStore().underTest() }
        #expect(report.label?.hasPrefix("postgres://postgres@/postgres") == true)
    }
}
#endif
