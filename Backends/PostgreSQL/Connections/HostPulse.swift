#if PostgreSQL
import Synchronization

/// The signs of life of one host, shared by all connections to it.
final class HostPulse: Sendable {
    /// The time without any answer after which a host that is asked is silent.
    static let silence = Duration.seconds(1)

    private let start = ContinuousClock().now
    /// The time of the latest answer, in nanoseconds since the start; negative before the first one.
    private let heard = Atomic<Int64>(-1)
    private let silent = Atomic<Bool>(false)
    private let former = Atomic<Bool>(false)

    /// True while the host accepts connections or bytes, and does not answer: its process is stopped, its disk hangs,
    /// or the network drops packets.
    var isSilent: Bool { silent.load(ordering: .relaxed) }

    /// True if another host has a later timeline, so that what this one answers may be out of date.
    var isFormerPrimary: Bool { former.load(ordering: .relaxed) }

    /// Records an answer.
    func hear() {
        heard.store(Int64(start.duration(to: ContinuousClock().now) / .nanoseconds(1)), ordering: .relaxed)
        if isSilent { silent.store(false, ordering: .relaxed) }
    }

    /// Records that a question was not answered in ``silence``. It counts unless another connection got an answer.
    func miss() {
        let latest = Duration.nanoseconds(heard.load(ordering: .relaxed))
        if start.duration(to: ContinuousClock().now) - latest >= Self.silence { silent.store(true, ordering: .relaxed) }
    }

    func setFormerPrimary(_ isFormer: Bool) { former.store(isFormer, ordering: .relaxed) }
}
#endif
