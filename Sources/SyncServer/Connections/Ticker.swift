import NIOCore

/// An object with deadlines on an event loop.
protocol Ticking: AnyObject {
    /// Acts on every deadline that is due at `now`.
    func tick(_ now: NIODeadline)
}

/// Lets the connections of one event loop check their deadlines four times a second.
///
/// Connections do not use NIO timers, because cancelling one searches all timers of the loop: O(*n*) for each
/// connection that closes. Connections are visited in 16 slices, so that thousands with the same deadline do not block
/// the others.
final class Ticker {
    private static let sliceCount = 16
    private static let interval = TimeAmount.milliseconds(250)

    private let loop: any EventLoop
    private var slices = Array(repeating: [ObjectIdentifier: any Ticking](), count: sliceCount)
    private var count = 0
    private var next = 0
    private var isRunning = false

    init(_ loop: any EventLoop) { self.loop = loop }

    /// Starts visiting `member`.
    func add(_ member: any Ticking) {
        guard slices[Self.slice(of: member)].updateValue(member, forKey: ObjectIdentifier(member)) == nil else {
            return
        }
        count += 1
        guard !isRunning else { return }
        isRunning = true
        schedule()
    }

    /// Stops visiting `member`.
    func remove(_ member: any Ticking) {
        if slices[Self.slice(of: member)].removeValue(forKey: ObjectIdentifier(member)) != nil { count -= 1 }
    }

    private static func slice(of member: any Ticking) -> Int { abs(ObjectIdentifier(member).hashValue % sliceCount) }

    private func schedule() {
        let bound = NIOLoopBound(self, eventLoop: loop)
        loop.scheduleTask(in: Self.interval / Self.sliceCount) { bound.value.visit() }
    }

    private func visit() {
        let now = NIODeadline.now()
        // A tick may remove members, so this iterates over a copy.
        for member in slices[next].values { member.tick(now) }
        next = (next + 1) % Self.sliceCount
        isRunning = count > 0
        if isRunning { schedule() }
    }
}

extension TimeAmount {
    fileprivate static func / (amount: TimeAmount, count: Int) -> TimeAmount {
        .nanoseconds(amount.nanoseconds / Int64(count))
    }
}
