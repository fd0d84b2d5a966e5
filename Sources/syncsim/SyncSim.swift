import SyncSimulation
import Entitlements
import Foundation

@main
struct SyncSim {
    static func main() {
        let a = UInt64(CommandLine.arguments[1])!, b = UInt64(CommandLine.arguments[2])!
        var marks = Marks()
        var bad = 0
        for seed in a...b {
            let s = Swarm().scenario(seed: seed)
            if a == b { print(s.devices, s.remote, s.faults, s.sharesUnits) }
            let rule = ConflictRules.expiryRules.first {
                $0.name == (ProcessInfo.processInfo.environment["RULE"] ?? "stackPurchases")
            }!
            let o = Simulation(s, of: Subject(rules: ConflictRules(expiry: rule))).run(
                isRecording: CommandLine.arguments.count > 3)
            marks.add(o.marks)
            if CommandLine.arguments.count > 3 { for e in o.trace!.events { print(e) } }
            if !o.violations.isEmpty { bad += 1; if bad < 40 { print(seed, o.violations[0], o.violations.count) } }
            if a == b { print(String(o.traceHash, radix: 16), o.jobCount) }
        }
        print("bad", bad, "missing", marks.missing)
    }
}
