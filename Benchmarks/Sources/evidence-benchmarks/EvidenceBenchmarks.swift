import BenchmarkSupport
import Entitlements
import EntitlementSyncEvidence

/// Times the verification of signed transactions against one bare verification of a P-256 signature, and the way of a
/// purchase from the App Store's notification to a device.
@main
struct EvidenceBenchmarks {
    private static let now = Timestamp(milliseconds: SignedSamples.date)

    static func main() async throws {
        var arguments = Arguments(usage: "evidence-benchmarks [--short] [--json] [--syncd PROGRAM]")
        let (isShort, isJSON) = (arguments.flag("--short"), arguments.flag("--json"))
        let syncd = arguments.text("--syncd") ?? repositoryPath + "/.build/release/syncd"
        arguments.end()
        requireRelease(unless: isShort)
        let (samples, others) = (try SignedSamples(), try SignedSamples())
        let roots = try EvidenceRoots(pem: samples.roots)
        let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: roots)
        let bundle: Set = ["com.example"]
        var stopwatch = Stopwatch(isShort: isShort)
        stopwatch.roundNanoseconds = 2_000_000

        let valid = try samples.transaction()
        let edited = valid.edited
        let foreign = try others.transaction()
        let halfForeign = try others.transaction(intermediate: samples.intermediate)
        expect(isAccepted(valid, verifier), "the transaction is accepted")
        for forgery in [edited, foreign, halfForeign] {
            expect(!isAccepted(forgery, verifier), "a forged transaction is refused")
        }
        expect(samples.verifiesBareSignature(), "the bare signature is valid")
        let grant = try GrantSample()
        expect(grant.isAccepted && grant.verifiesBareSignature(), "the grant is accepted")
        let grantFloor: (Int) -> UInt64 = { _ in grant.verifiesBareSignature() ? 1 : 0 }
        let floor: (Int) -> UInt64 = { _ in samples.verifiesBareSignature() ? 1 : 0 }
        let rows = [
            stopwatch.measure("transaction, chain cached", size: 1, floor: floor) { _ in
                isAccepted(valid, verifier) ? 1 : 0
            },
            stopwatch.measure("transaction, new chain", size: 1, floor: floor) { _ in
                isAccepted(valid, AppStoreVerifier(bundleIDs: bundle, roots: roots)) ? 1 : 0
            },
            stopwatch.measure("forged signature, chain cached", size: 1, floor: floor) { _ in
                isAccepted(edited, verifier) ? 1 : 0
            },
            stopwatch.measure("forged signer, known intermediate", size: 1, floor: floor) { _ in
                isAccepted(halfForeign, verifier) ? 1 : 0
            },
            stopwatch.measure("forged chain", size: 1, floor: floor) { _ in isAccepted(foreign, verifier) ? 1 : 0 },
            stopwatch.measure("grant, beside one Ed25519 check", size: 1, floor: grantFloor) { _ in
                grant.isAccepted ? 1 : 0
            },
        ]
        let way = try await NotificationTime(samples: samples, program: syncd).measure(count: isShort ? 2 : 100)
        print(isJSON ? json(rows, way) : text(rows, way))
    }

    /// The folder of the package, four levels above this file.
    private static var repositoryPath: String {
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
    }

    private static func isAccepted(_ jws: String, _ verifier: AppStoreVerifier) -> Bool {
        do {
            return try !verifier.transaction(jws, now: now).facts.isEmpty
        } catch {
            return false
        }
    }

    private static func text(_ rows: [Measurement], _ way: NotificationTime.Result) -> String {
        let title = row("what", "time", "a second", "signature", "ratio")
        let lines = rows.map { measurement in
            row(
                measurement.name, duration(measurement.nanoseconds), decimal(1e9 / measurement.nanoseconds, places: 0),
                duration(measurement.floor), decimal(measurement.ratio, places: 2))
        }
        let note =
            "one core; the signature is one check by P-256, or by Ed25519 for the grant; ratios are medians of rounds "
            + "that took turns"
        return ([title, String(repeating: "-", count: 79)] + lines + ["", note, "", way.text]).joined(separator: "\n")
    }

    private static func row(_ name: String, _ cells: String...) -> String {
        name.padded(to: 35) + cells.map { $0.padded(to: -11) }.joined()
    }

    private static func json(_ rows: [Measurement], _ way: NotificationTime.Result) -> String {
        let objects = rows.map { measurement in
            "  {\"name\":\"\(measurement.name)\",\"nanoseconds\":\(decimal(measurement.nanoseconds, places: 1)),"
                + "\"floorNanoseconds\":\(decimal(measurement.floor, places: 1)),"
                + "\"ratio\":\(decimal(measurement.ratio, places: 3))}"
        }
        return "[\n" + (objects + [way.json]).joined(separator: ",\n") + "\n]"
    }
}
