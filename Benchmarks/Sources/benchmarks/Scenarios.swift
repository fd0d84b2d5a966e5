import BenchmarkSupport
import Entitlements

/// The rows for one ledger size.
struct Scenarios {
    /// Ledgers of one size. Most rows use the first one, some rotate through all of them.
    let workloads: [Workload]

    private var first: Workload { workloads[0] }
    private var size: Int { first.size }

    func measure(with stopwatch: inout Stopwatch) -> [Measurement] {
        // Rounds with 100,000 records are long and vary little.
        stopwatch.rounds = size >= 100_000 ? 15 : 101
        return measureDocuments(with: &stopwatch) + measureJoins(with: &stopwatch) + measureReplay(with: &stopwatch)
    }

    private func measureDocuments(with stopwatch: inout Stopwatch) -> [Measurement] {
        let document = LedgerDocument(ledger: first.left)
        let bytes = first.leftDocument
        let floor = Floor(compared: bytes.count, copied: bytes.count)
        return [
            stopwatch.measure("encode", size: size, floor: floor.run) { _ in
                UInt64(document.encoded().count)
            },
            stopwatch.measure("decode", size: size, floor: floor.run) { _ in
                UInt64(decode(bytes).count)
            },
        ]
    }

    private func measureJoins(with stopwatch: inout Stopwatch) -> [Measurement] {
        // A join reads both sides, like a comparison, and writes the union.
        let floors = workloads.map {
            Floor(compared: $0.left.byteCount, copied: $0.left.joined(with: $0.right).byteCount)
        }
        let smallFloor = Floor(compared: first.left.byteCount, copied: first.leftAndOne.byteCount)
        var rows = [
            stopwatch.measure("join, half shared", size: size, floor: floors[0].run) { _ in
                UInt64(Ledger.join(first.left, first.right).ledger.count)
            }
        ]
        if workloads.count > 1 {
            // Branch prediction would learn the pattern of a single pair, which does not happen in practice.
            rows.append(
                stopwatch.measure("join, \(workloads.count) pairs in turn", size: size) { index in
                    floors[index % floors.count].run(index)
                } subject: { index in
                    let pair = workloads[index % workloads.count]
                    return UInt64(Ledger.join(pair.left, pair.right).ledger.count)
                })
        }
        rows += [
            stopwatch.measure("join, one record new", size: size, floor: smallFloor.run) { _ in
                UInt64(Ledger.join(first.left, first.leftAndOne).ledger.count)
            },
            stopwatch.measure("bytes in, merged bytes out", size: size, floor: floors[0].run) { _ in
                let joined = decode(first.leftDocument).joined(with: decode(first.rightDocument))
                return UInt64(LedgerDocument(ledger: joined).encoded().count)
            },
        ]
        return rows
    }

    private func measureReplay(with stopwatch: inout Stopwatch) -> [Measurement] {
        expect(
            first.replay.access(to: "random-owls", at: first.active)?.isGranted == true, "a period grants access")
        let floor = Floor(compared: first.left.byteCount, copied: first.left.byteCount)
        return [
            stopwatch.measure("read facts", size: size, floor: floor.run) { _ in
                Facts(account: first.left).latestTime.rawValue
            },
            stopwatch.measure("read facts, one new", size: size, floor: floor.run) { _ in
                first.facts.advanced(account: first.leftAndOne).latestTime.rawValue
            },
            stopwatch.measure("replay", size: size, floor: floor.run) { _ in
                UInt64(Replay(first.facts, catalog: first.catalog).timelines.count)
            },
            stopwatch.measure("access, granted", size: size, floor: floor.run) { _ in
                first.replay.access(to: "random-owls", at: first.active)?.isGranted == true ? 1 : 0
            },
            stopwatch.measure("access, denied", size: size, floor: floor.run) { _ in
                first.replay.access(to: "random-owls", at: first.early)?.isGranted == true ? 1 : 0
            },
        ]
    }

    private func decode(_ bytes: [UInt8]) -> Ledger {
        do { return try LedgerDocument(decoding: bytes).ledger } catch { exitWithFailure("\(error)") }
    }
}
