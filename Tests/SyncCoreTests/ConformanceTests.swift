import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The conformance checks")
struct ConformanceTests {
    @Test("pass for the memory store")
    func memory() async {
        await expectConformance(of: "memory") { MemoryBackend(maximumValueByteCount: 1 << 21) }
    }

    @Test("pass for a retrying store over one that fails now and then")
    func retryOverFaulty() async {
        let seed = printedSeed("retry over faulty")
        await expectConformance(of: "retry over faulty") {
            let faulty = FaultyBackend(MemoryBackend(), plan: .seeded(seed, rate: 0.2, faults: [.transient]))
            return RetryBackend(
                faulty, policy: RetryPolicy(maximumAttempts: 40), host: ManualHost(seed: seed).host)
        }
    }

    @Test("pass for a counted store")
    func counting() async {
        await expectConformance(of: "counting") { CountingBackend(MemoryBackend()) }
    }

    @Test("pass for a store that refuses preconditions, and see that it does")
    func unconditional() async {
        await expectConformance(of: "unconditional") {
            UnconditionalBackend(MemoryBackend(maximumValueByteCount: 1 << 21))
        }
        let report = await Conformance.run(seed: 1) { UnconditionalBackend(MemoryBackend()) }
        let refusal = "preconditions that cannot be honoured are refused, and nothing is written"
        #expect(report.results.contains { $0.check == refusal && $0.outcome == .passed })
    }

    @Test("skip with a reason what a store does not declare")
    func skipping() async {
        let report = await Conformance.run(seed: 1) { BrokenBackend(.refusesPreconditionsAsDeclared) }
        #expect(report.failures.isEmpty, "\(report)")
        #expect(report.skipped.contains { $0.reason == "it declares no compare-and-swap" })
        #expect(report.skipped.contains { $0.reason == "it declares no changes" })
    }

    @Test("fail for a store that is broken in one way", arguments: BrokenBackend.Flaw.allCases.filter(\.isFlaw))
    func broken(_ flaw: BrokenBackend.Flaw) async {
        let report = await Conformance.run(seed: 1) { BrokenBackend(flaw) }
        #expect(!report.failures.isEmpty, "\(flaw) went unnoticed")
        #expect(report.results.contains { $0.outcome == .passed }, "\(flaw) breaks everything, so it proves nothing")
        #expect(
            report.failures.contains { $0.check == flaw.checkThatFails },
            "\(flaw) was caught by \(report.failures.map(\.check)) only")
    }

    @Test("report a store that cannot be made as failed, never as passed")
    func unavailable() async {
        let report = await Conformance.run(seed: 1) {
            throw BackendError(.unavailable, message: "no server")
        }
        #expect(!report.hasPassed)
        #expect(report.failures.count == Conformance.checks.count)
    }
}
