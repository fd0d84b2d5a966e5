import HTTPTypes
import Synchronization

/// The slots of devices that wait for approval: a total, and a share per address.
///
/// Anyone may request a device code, and each code is stored until it is redeemed or expires. A slot is taken for as
/// long as the code is stored. Each process counts the codes that it created; a code that is redeemed at another
/// process keeps its slot until it expires.
final class DeviceSlots: Sendable {
    private struct Slot {
        var device: String
        /// `nil` for a device without a share, see ``Budget``.
        var address: ClientAddress?
        var expires: Int64
    }

    private let limits: CallerLimits
    private let onRefusal: @Sendable (Refusal) -> Void
    /// The slots in the order in which they were taken, which is also the order in which they expire.
    private let slots = Mutex<[Slot]>([])

    init(_ limits: CallerLimits, onRefusal: @escaping @Sendable (Refusal) -> Void) {
        (self.limits, self.onRefusal) = (limits, onRefusal)
    }

    /// The number of slots in use.
    var count: Int { slots.withLock { $0.count } }

    /// Takes a slot for a device at `peer` until its code expires, after releasing those of expired codes.
    ///
    /// - Parameter device: A name of the device that no other has.
    /// - Throws: ``RequestError`` with status 429 if the share of the address is exhausted, and 503 if all slots are
    ///   taken.
    func take(_ device: String, for peer: String, until expires: Int64, now: Int64) throws(RequestError) {
        let address = ClientAddress(peer).flatMap { $0.isLoopback ? nil : $0.network }
        let full = slots.withLock { slots -> (isShare: Bool, first: Int64?)? in
            slots.removeFirst(slots.prefix { DeviceAuthorizations.isOver(expires: $0.expires, at: now) }.count)
            if slots.count >= limits.waitingDevices ?? .max { return (false, slots.first?.expires) }
            if let address, let most = limits.addressWaitingDevices {
                let own = slots.filter { $0.address == address }
                if own.count >= most { return (true, own.first?.expires) }
            }
            slots.append(Slot(device: device, address: address, expires: expires))
            return nil
        }
        guard let full else { return }
        onRefusal(full.isShare ? .addressRate : .overload)
        let delay = max(1, ((full.first ?? now) - now + 999) / 1_000)
        throw RequestError(
            full.isShare ? .tooManyRequests : .serviceUnavailable,
            "too many devices \(full.isShare ? "of this address " : "")wait for approval; try again in \(delay) s",
            retryAfter: delay)
    }

    /// Releases the slot of a device whose code is not stored.
    func release(_ device: String) {
        slots.withLock { slots in
            if let index = slots.firstIndex(where: { $0.device == device }) { slots.remove(at: index) }
        }
    }
}
