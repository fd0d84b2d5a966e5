import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Checks handwritten histories with known verdicts.
@Suite("The linearizability checker")
struct LinearizabilityTests {
    private typealias Call = RecordedOperation.Call
    private typealias Ending = RecordedOperation.Ending

    private let v1 = EntryVersion(bytes: [1])
    private let v2 = EntryVersion(bytes: [2])
    private let v3 = EntryVersion(bytes: [3])

    private func found(_ value: UInt8, _ version: EntryVersion) -> Ending {
        .read(.found(Entry(value: [value], version: version)))
    }

    /// Checks operations given as (call, result, position of the call, position of the answer), one task each.
    private func verdict(
        _ operations: [(Call, Ending, Int, Int)], from initial: Entry? = nil
    ) -> Linearizability.Verdict {
        Linearizability.check(
            operations.enumerated().map { task, operation in
                RecordedOperation(
                    task: task, call: operation.0, ending: operation.1, called: operation.2, answered: operation.3)
            }, from: initial)
    }

    private func order(_ verdict: Linearizability.Verdict) -> [Int]? {
        if case .linearizable(let order) = verdict { order } else { nil }
    }

    @Test("accepts an empty history and sequential operations")
    func sequential() {
        #expect(verdict([]) == .linearizable(order: []))
        let history: [(Call, Ending, Int, Int)] = [
            (.read(unless: nil), .read(.absent), 1, 2),
            (.write([1], if: .absent), .changed(.written(v1)), 3, 4),
            (.read(unless: nil), found(1, v1), 5, 6),
            (.read(unless: v1), .read(.unchanged), 7, 8),
            (.write([2], if: .matches(v1)), .changed(.written(v2)), 9, 10),
            (
                .write([3], if: .matches(v1)), .changed(.conflict(Entry(value: [2], version: v2))), 11, 12
            ),
            (.delete(if: .matches(v2)), .changed(.deleted), 13, 14),
            (.delete(if: .matches(v2)), .changed(.conflict(nil)), 15, 16),
            (.read(unless: v2), .read(.absent), 17, 18),
        ]
        #expect(order(verdict(history)) == Array(0..<9))
    }

    @Test("starts with the initial entry")
    func initialEntry() {
        let read: [(Call, Ending, Int, Int)] = [(.read(unless: nil), found(1, v1), 1, 2)]
        #expect(order(verdict(read)) == nil)
        #expect(order(verdict(read, from: Entry(value: [1], version: v1))) == [0])
        #expect(order(verdict(read, from: Entry(value: [2], version: v1))) == nil)
    }

    @Test("lets a read during a write see the old entry or the new one")
    func concurrentRead() {
        let write: (Call, Ending, Int, Int) = (.write([1], if: .any), .changed(.written(v1)), 1, 10)
        #expect(order(verdict([write, (.read(unless: nil), .read(.absent), 2, 3)])) == [1, 0])
        #expect(order(verdict([write, (.read(unless: nil), found(1, v1), 2, 3)])) == [0, 1])
    }

    @Test("detects a stale read: the old entry after another task has seen the new one")
    func staleRead() {
        let initial = Entry(value: [1], version: v1)
        let write: (Call, Ending, Int, Int) = (.write([2], if: .any), .changed(.written(v2)), 1, 4)
        #expect(order(verdict([write, (.read(unless: nil), found(1, v1), 5, 6)], from: initial)) == nil)
        let seenByOne: [(Call, Ending, Int, Int)] = [
            (.write([2], if: .any), .changed(.written(v2)), 1, 10),
            (.read(unless: nil), found(2, v2), 2, 3),
            (.read(unless: nil), found(1, v1), 4, 5),
        ]
        #expect(order(verdict(seenByOne, from: initial)) == nil)
        #expect(order(verdict([seenByOne[0], seenByOne[2]], from: initial)) == [1, 0])
    }

    @Test("detects a stale conditional read")
    func staleConditionalRead() {
        let history: [(Call, Ending, Int, Int)] = [
            (.write([2], if: .any), .changed(.written(v2)), 1, 2), (.read(unless: v1), .read(.unchanged), 3, 4),
        ]
        #expect(order(verdict(history, from: Entry(value: [1], version: v1))) == nil)
    }

    @Test("detects a lost update: two writers of one version, sequential or concurrent")
    func lostUpdate() {
        let initial = Entry(value: [1], version: v1)
        for second in [(5, 6), (2, 3)] {
            let history: [(Call, Ending, Int, Int)] = [
                (.write([2], if: .matches(v1)), .changed(.written(v2)), 1, 4),
                (.write([3], if: .matches(v1)), .changed(.written(v3)), second.0, second.1),
            ]
            #expect(order(verdict(history, from: initial)) == nil)
        }
    }

    @Test("detects two winners under `absent`, and accepts one")
    func twoWinners() {
        let first: (Call, Ending, Int, Int) = (.write([1], if: .absent), .changed(.written(v1)), 1, 10)
        let second = Call.write([2], if: .absent)
        #expect(order(verdict([first, (second, .changed(.written(v2)), 2, 9)])) == nil)
        let loser = Ending.changed(.conflict(Entry(value: [1], version: v1)))
        #expect(order(verdict([first, (second, loser, 2, 9)])) == [0, 1])
        // A delete between them allows both.
        let deleted: (Call, Ending, Int, Int) = (.delete(if: .any), .changed(.deleted), 3, 8)
        #expect(order(verdict([first, (second, .changed(.written(v2)), 2, 9), deleted])) != nil)
    }

    @Test("detects a conflict with an entry that was never written, or without an entry")
    func inventedConflict() {
        let initial = Entry(value: [1], version: v1)
        let write = Call.write([9], if: .absent)
        #expect(order(verdict([(write, .changed(.conflict(initial)), 1, 2)], from: initial)) == [0])
        for entry in [Entry(value: [7], version: v1), Entry(value: [1], version: v3), nil] {
            #expect(order(verdict([(write, .changed(.conflict(entry)), 1, 2)], from: initial)) == nil)
        }
        // A conflict although the precondition held.
        let matching = Call.write([9], if: .matches(v1))
        #expect(order(verdict([(matching, .changed(.conflict(initial)), 1, 2)], from: initial)) == nil)
        #expect(order(verdict([(.write([9], if: .any), .changed(.conflict(initial)), 1, 2)], from: initial)) == nil)
    }

    @Test("detects an outcome of the wrong kind")
    func wrongKind() {
        #expect(order(verdict([(.write([1], if: .any), .changed(.deleted), 1, 2)])) == nil)
        #expect(order(verdict([(.delete(if: .any), .changed(.written(v1)), 1, 2)])) == nil)
        #expect(order(verdict([(.read(unless: nil), .changed(.deleted), 1, 2)])) == nil)
        #expect(order(verdict([(.read(unless: v1), found(1, v1), 1, 2)], from: Entry(value: [1], version: v1))) == nil)
    }

    @Test("allows a write of unknown outcome once, at any later time, or never")
    func unknown() {
        let write: (Call, Ending, Int, Int) = (.write([2], if: .any), .unknown, 1, .max)
        let old: (Call, Ending, Int, Int) = (.read(unless: nil), .read(.absent), 2, 3)
        let new: (Call, Ending, Int, Int) = (.read(unless: nil), found(2, v2), 4, 5)
        let newAgain: (Call, Ending, Int, Int) = (.read(unless: v2), .read(.unchanged), 6, 7)
        #expect(order(verdict([write, old])) == [1])
        #expect(order(verdict([write, old, new])) == [1, 0, 2])
        #expect(order(verdict([write, old, new, newAgain])) == [1, 0, 2, 3])
        // It has one version, and it cannot be undone and repeated.
        #expect(order(verdict([write, new, (.read(unless: nil), found(2, v3), 6, 7)])) == nil)
        #expect(order(verdict([write, new, (.read(unless: nil), .read(.absent), 6, 7)])) == nil)
        // It cannot happen before its call.
        #expect(order(verdict([(.write([2], if: .any), .unknown, 6, .max), new])) == nil)
    }

    @Test("allows an operation of unknown outcome only where its precondition held")
    func unknownConditional() {
        let initial = Entry(value: [1], version: v1)
        let history: [(Call, Ending, Int, Int)] = [
            (.write([3], if: .matches(v1)), .changed(.written(v3)), 1, 2),
            (.write([2], if: .matches(v1)), .unknown, 3, .max),
            (.read(unless: nil), found(2, v2), 4, 5),
        ]
        #expect(order(verdict(history, from: initial)) == nil)
        #expect(order(verdict([history[1], history[2]], from: initial)) == [0, 1])
        let deleted: [(Call, Ending, Int, Int)] = [
            (.delete(if: .matches(v1)), .unknown, 1, .max), (.read(unless: nil), .read(.absent), 2, 3),
        ]
        #expect(order(verdict(deleted, from: initial)) == [0, 1])
        #expect(order(verdict(deleted, from: Entry(value: [1], version: v2))) == nil)
    }

    @Test("does not assign the version of an acknowledged write to an unknown one")
    func unknownVersion() {
        let history: [(Call, Ending, Int, Int)] = [
            (.write([1], if: .absent), .changed(.written(v1)), 1, 2), (.write([2], if: .any), .unknown, 3, .max),
            (.read(unless: nil), found(2, v1), 4, 5),
        ]
        #expect(order(verdict(history)) == nil)
        let conditional: [(Call, Ending, Int, Int)] = [
            history[0], history[1], (.write([3], if: .matches(v2)), .changed(.written(v3)), 4, 5),
        ]
        #expect(order(verdict(conditional)) == [0, 1, 2])
    }

    @Test("explains the longest partial order and the operations that cannot follow")
    func explanation() {
        let outcome = verdict([
            (.write([1], if: .absent), .changed(.written(v1)), 1, 2), (.read(unless: nil), .read(.absent), 3, 4),
        ])
        #expect(
            outcome
                == .notLinearizable(
                    "no order explains what was seen; after 1 of 2 operations, the last of them "
                        + "(task 0: write [1] if absent → written at 01), the key holds [1] at 01, and none of "
                        + "these can be next: task 1: read → absent"))
    }

    @Test("finds a valid order for every history that was generated from one")
    func generated() {
        let seed = printedSeed("generated histories")
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<300 {
            let history = generator.history(count: 40)
            guard case .linearizable(let order) = Linearizability.check(history) else {
                Issue.record("seed \(seed): \(history)")
                return
            }
            #expect(Set(order).count == order.count)
            for (place, index) in order.enumerated() {
                let later = order[(place + 1)...].filter { history[$0].answered < history[index].called }
                #expect(later.isEmpty, "seed \(seed): \(index) is placed before what was answered before it")
            }
        }
    }

    @Test("finds no order if one answer of a valid history is replaced by an entry that was never written")
    func spoiled() {
        let seed = printedSeed("spoiled histories")
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<100 {
            var history = generator.history(count: 30)
            let last = history.map(\.answered).filter { $0 < .max }.max() ?? 0
            history.append(
                RecordedOperation(
                    task: 9, call: .read(unless: nil), ending: found(255, EntryVersion(bytes: [255, 255])),
                    called: last + 1, answered: last + 2))
            #expect(order(Linearizability.check(history)) == nil, "seed \(seed)")
        }
    }
}

extension SeededGenerator {
    /// Generates a history of operations that take effect at the positions 10, 20, …, each called before and answered
    /// after its position. Some are never answered, and some of those have no effect.
    fileprivate mutating func history(count: Int) -> [RecordedOperation] {
        var history: [RecordedOperation] = []
        var current: Entry?
        for number in 1...count {
            let version = EntryVersion(bytes: [UInt8(number), 0])
            let precondition: Precondition =
                [.any, .absent, current.map { .matches($0.version) } ?? .absent].randomElement(using: &self) ?? .any
            let holds = precondition.holds(for: current?.version)
            let isUnknown = Int.random(in: 0..<10, using: &self) == 0
            let happens = !isUnknown || Bool.random(using: &self)
            let call: RecordedOperation.Call
            var ending: RecordedOperation.Ending
            switch Int.random(in: 0..<4, using: &self) {
            case 0:
                call = .delete(if: precondition)
                ending = .changed(holds ? .deleted : .conflict(current))
                if holds, happens { current = nil }
            case 1:
                call = .read(unless: nil)
                ending = .read(current.map(ReadOutcome.found) ?? .absent)
            default:
                call = .write([UInt8(number)], if: precondition)
                ending = .changed(holds ? .written(version) : .conflict(current))
                if holds, happens { current = Entry(value: [UInt8(number)], version: version) }
            }
            if isUnknown { ending = .unknown }
            history.append(
                RecordedOperation(
                    task: number % 5, call: call, ending: ending,
                    called: number * 10 - Int.random(in: 1...30, using: &self),
                    answered: isUnknown ? .max : number * 10 + Int.random(in: 1...30, using: &self)))
        }
        return history
    }
}
