import StoreEvidence
import Testing

@Suite("Refusals of evidence")
struct EvidenceErrorTests {
    @Test("A refusal names its check first")
    func description() {
        #expect("\(EvidenceError(.signature, "it does not match"))" == "signature: it does not match")
    }
}
