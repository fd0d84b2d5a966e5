import Dispatch
import NIOCore
import NIOPosix
import Synchronization
import SyncService
import Testing

@testable import SyncServer

@Suite("Who waits for a turn")
struct TurnstileTests {
    private let loop = MultiThreadedEventLoopGroup.singleton.next()
    private let seen = Box<[String]>([])
    private let refusals = Box<[Refusal]>([])

    private func turnstile(capacity: Int, addressCapacity: Int = 100) -> Turnstile {
        Turnstile(capacity: capacity, addressCapacity: addressCapacity) { [refusals] in refusals.append($0) }
    }

    private static func comer(_ peer: String = "127.0.0.1", isKnown: Bool = false) -> WaitingLine.Comer {
        WaitingLine.Comer(peer: peer, isKnown: isKnown)
    }

    /// Notes `name` when its turn comes, and what became of it else.
    private func enter(_ turnstile: Turnstile, _ name: String, _ comer: WaitingLine.Comer) -> Bool {
        let leave = turnstile.enter(on: loop, comer) { [seen] outcome in
            seen.append(outcome == .admitted ? name : "\(name) \(outcome)")
        }
        return leave != nil
    }

    /// Waits until `count` are noted.
    private func wait(for count: Int) async throws {
        let end = ContinuousClock.now + .seconds(20)
        while seen.read().count < count, ContinuousClock.now < end { try await loop.submit {}.get() }
        #expect(seen.read().count == count)
    }

    @Test("each has its turn in the order in which they came; who finds no place is sent away at once")
    func order() async throws {
        let turnstile = turnstile(capacity: 20)
        let admitted = try await loop.submit {
            (0..<22).map { enter(turnstile, "\($0)", Self.comer()) }
        }.get()
        #expect(admitted == Array(repeating: true, count: 20) + [false, false])
        #expect(refusals.read() == [.overload, .overload])
        try await wait(for: 22)
        let refused = (20..<22).map { "\($0) \(Turnstile.Outcome.refused(.overload))" }
        #expect(seen.read() == refused + (0..<20).map { "\($0)" })
        #expect(await turnstile.wait(on: loop, Self.comer()) == .admitted)
    }

    @Test("who leaves goes before who comes, and takes no place from him")
    func leavers() async throws {
        let turnstile = turnstile(capacity: 3)
        let (first, then) = try await loop.submit {
            let first = enter(turnstile, "comer", Self.comer())
            for number in 0..<40 { turnstile.leave(on: loop) { [seen] in seen.append("leaver \(number)") } }
            return (first, (0..<3).map { enter(turnstile, "later \($0)", Self.comer()) })
        }.get()
        #expect(first)
        #expect(then == [true, true, false])
        try await wait(for: 44)
        let comers = ["comer", "later 0", "later 1"]
        #expect(seen.read().filter { !comers.contains($0) }.dropFirst() == (0..<40).map { "leaver \($0)" }[...])
        #expect(seen.read().suffix(3) == comers[...])
    }

    @Test("one network has its share of the places, the machine itself as many as there are")
    func networks() async throws {
        let turnstile = turnstile(capacity: 8, addressCapacity: 2)
        let peers = [
            "203.0.113.1", "203.0.113.1", "203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2", "2001:db8::3",
            "somebody", "127.0.0.1", "::1", "127.0.0.1",
        ]
        let admitted = try await loop.submit { peers.map { enter(turnstile, $0, Self.comer($0)) } }.get()
        #expect(admitted == [true, true, false, true, true, true, false, true, true, true, false])
        #expect(refusals.read() == [.addressRate, .addressRate, .overload])
        try await wait(for: peers.count)
        // The places are given back.
        let again = try await loop.submit { peers.prefix(3).map { enter(turnstile, $0, Self.comer($0)) } }.get()
        #expect(again == [true, true, false])
    }

    @Test("who is known has places and turns of his own, however many strangers wait")
    func strangers() async throws {
        let turnstile = turnstile(capacity: 200)
        try await loop.submit {
            for number in 0..<300 { _ = enter(turnstile, "stranger", Self.comer("198.51.100.\(number % 250)")) }
            for _ in 0..<4 { _ = enter(turnstile, "known", Self.comer("203.0.113.1", isKnown: true)) }
        }.get()
        #expect(refusals.read().count == 100)
        try await wait(for: 304)
        #expect(seen.read()[100..<104] == ["known", "known", "known", "known"])
        #expect(seen.read()[104..<108] == ["stranger", "stranger", "stranger", "stranger"])
    }

    @Test("who leaves before his turn is told so at once, and his place is free")
    func gone() async throws {
        let turnstile = turnstile(capacity: 1, addressCapacity: 1)
        try await loop.submit {
            for number in 0..<1_000 {
                let leave = turnstile.enter(on: loop, Self.comer("203.0.113.1")) { [seen] in seen.append("\($0)") }
                leave?()
                leave?()
                #expect(seen.read().count == number + 1)
            }
        }.get()
        #expect(seen.read() == Array(repeating: "\(Turnstile.Outcome.gone)", count: 1_000))
        #expect(refusals.read().isEmpty)
        let outcome = await turnstile.wait(on: loop, Self.comer("203.0.113.1"))
        #expect(outcome == .admitted)
        // The loop does nothing else meanwhile, so that it cannot be his turn.
        let hasLeft = DispatchSemaphore(value: 0)
        loop.execute { hasLeft.wait() }
        let left = await turnstile.wait(on: loop, Self.comer()) { leave in
            leave()
            hasLeft.signal()
        }
        #expect(left == .gone)
    }

    @Test("when the server ends, all who wait are told so at once, and nobody waits any more")
    func ending() async throws {
        let turnstile = turnstile(capacity: 10_000)
        try await loop.submit {
            for number in 0..<10_000 { _ = enter(turnstile, "x", Self.comer(isKnown: number % 2 == 0)) }
            turnstile.finish()
            #expect(seen.read() == Array(repeating: "x \(Turnstile.Outcome.ended)", count: 10_000))
            turnstile.leave(on: loop) { [seen] in seen.append("leaver") }
        }.get()
        #expect(await turnstile.wait(on: loop, Self.comer()) == .ended)
        #expect(refusals.read().isEmpty)
        try await wait(for: 10_001)
    }
}

/// A value that several threads write.
final class Box<Value: Sendable>: Sendable {
    private let value: Mutex<Value>
    init(_ value: Value) { self.value = Mutex(value) }

    func read() -> Value { value.withLock { $0 } }
    func change(_ body: (inout Value) -> Void) { value.withLock { value in body(&value) } }
    func append<Element: Sendable>(_ element: Element) where Value == [Element] { change { $0.append(element) } }
}
