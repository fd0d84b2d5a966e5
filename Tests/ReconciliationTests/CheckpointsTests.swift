import EntitlementsTestSupport
import Testing

@testable import SyncCore

@Suite("Checkpoints in a local section")
struct CheckpointsTests {
    private func random(_ random: inout SplitMix64) -> Checkpoints {
        var checkpoints = Checkpoints()
        for _ in 0..<random.int(0...5) {
            let name = random.pick(["", "memory:", "file:/a\nb", "🦉", "https://example.com/" + String(random.next())])
            checkpoints[name] = Checkpoints.Checkpoint(
                remoteVersion: EntryVersion(bytes: random.bytes(1...64)), contentDigest: random.bytes(0...32))
        }
        return checkpoints
    }

    @Test("Decoding an encoded section gives the same checkpoints")
    func roundTrip() throws {
        try forAll("checkpoints", cases: 2_000) { generator, place in
            let checkpoints = random(&generator)
            try #require(Checkpoints(section: checkpoints.section) == checkpoints, "\(place)")
        }
    }

    @Test("A truncated section is dropped completely")
    func truncated() throws {
        try forAll("truncated checkpoints", cases: 500) { generator, place in
            let section = random(&generator).section
            for count in 0..<section.count {
                try #require(Checkpoints(section: Array(section.prefix(count))) == Checkpoints(), "\(count); \(place)")
            }
        }
    }

    @Test("A section of another format is dropped")
    func otherFormat() {
        var checkpoints = Checkpoints()
        checkpoints["r"] = Checkpoints.Checkpoint(remoteVersion: EntryVersion(bytes: [1]), contentDigest: [2])
        var section = checkpoints.section
        section[0] += 1
        #expect(Checkpoints(section: section) == Checkpoints())
    }

    @Test("A section with a version of 0 or more than 64 bytes is dropped", arguments: [0, 65])
    func unfitVersion(count: Int) {
        let section: [UInt8] = [1, 1, 0, 1, 0x72, 0, UInt8(count)] + [UInt8](repeating: 9, count: count) + [0, 0]
        #expect(Checkpoints(section: section) == Checkpoints())
    }

    @Test("Without checkpoints the section is empty")
    func none() {
        #expect(Checkpoints().section.isEmpty)
    }
}
