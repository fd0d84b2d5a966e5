import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Two processes that use one store at the same time, as an app and `syncd` do.
@Suite("Two processes that write to one store without pauses", .serialized)
struct WritingTogetherTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("lose nothing, and see every write of the other process", arguments: SharedKind.conditional)
    func together(kind: SharedKind) async throws {
        let path = try folder.freshFolder()
        let names = ["app", "syncd"]
        let milliseconds = "\(1_000 * Soak.sharedSeconds)"
        let processes = try zip(names, names.reversed()).map { name, other in
            try BuiltProgram.startProbe("share", "\(kind):\(path)", name, other, milliseconds)
        }
        let outputs = try zip(names, processes).map { name, process in try SharerOutput(of: process, name: name) }
        let store = kind.open(path)

        for output in outputs {
            for number in output.wrote.indices {
                let key = try EntryKey("\(output.name)/\(number % 50)/\(number)")
                guard case .found(let entry) = try await store.read(key).outcome else {
                    Issue.record("\(key) was acknowledged and is absent")
                    continue
                }
                #expect(entry.value == Array("\(output.name) \(number)".utf8))
            }
        }
        guard case .found(let entry) = try await store.read(EntryKey("counter")).outcome else {
            Issue.record("the counter is absent")
            return
        }
        #expect(Int(String(decoding: entry.value, as: UTF8.self)) == outputs[0].raised + outputs[1].raised)
        let survey = try await StoreSurvey.of(store)
        // In addition to the counter, each process writes two entries before and one at the end.
        #expect(survey.damage.isEmpty && survey.wholeCount == outputs[0].wrote.count + outputs[1].wrote.count + 7)

        var delays: [Duration] = []
        for (writer, reader) in [(outputs[0], outputs[1]), (outputs[1], outputs[0])] {
            for (number, written) in writer.wrote.enumerated() {
                let seen = try #require(reader.saw[number], "\(reader.name) never saw \(number) of \(writer.name)")
                // The entry may be read before its writer receives the acknowledgement.
                delays.append(.nanoseconds(max(0, seen - written)))
            }
        }
        delays.sort()
        let late = delays[(delays.count - 1) * 99 / 100]
        print(
            "two processes on one \(kind) store, \(Soak.sharedSeconds) s: \(outputs[0].wrote.count) and "
                + "\(outputs[1].wrote.count) acknowledged writes and \(outputs[0].raised + outputs[1].raised) raises "
                + "all there; seen by the other after \(delays[delays.count / 2]) (median), \(late) (99th percentile), "
                + "\(delays[delays.count - 1]) (most)")
        // Elsewhere the machine may be busy; only completeness is required there.
        if Soak.isSharing { #expect(late <= .milliseconds(100)) }
    }
}

/// The final output of a `StoreProbe share` process.
private struct SharerOutput {
    let name: String
    /// The times at which the writes 0, 1, … were acknowledged, in nanoseconds of the machine's clock.
    private(set) var wrote: [Int64] = []
    /// The times at which the writes of the other process had been read.
    private(set) var saw: [Int: Int64] = [:]
    /// The number of increments of the counter.
    private(set) var raised = 0

    /// Reads the output of `process` to its end.
    init(of process: ChildProcess, name: String) throws {
        self.name = name
        // The process prints nothing until both have ended. The timeout is for a signal that never comes.
        var hearing = process.hear(within: .seconds(Soak.sharedSeconds + 180))
        while case .line(let line) = hearing {
            let words = line.split(separator: " ")
            let numbers = words.dropFirst().compactMap { Int64($0) }
            switch (words.first, numbers.count) {
            case ("wrote", 2) where numbers[0] == Int64(wrote.count): wrote.append(numbers[1])
            case ("saw", 2): saw[Int(numbers[0])] = numbers[1]
            case ("raised", 1): raised = Int(numbers[0])
            default: throw BackendError(.other, message: "\(name) said: \(line)")
            }
            hearing = process.hear()
        }
        guard hearing == .end, process.wait() == 0, !wrote.isEmpty else {
            throw BackendError(
                .other, message: "\(name) ended with \(process.killAndWait()) after \(wrote.count) writes")
        }
    }
}
