import HTTPTypes
import Synchronization

/// The places of devices that wait for approval: a total, and a share per address.
///
/// Anyone may request a device code, and each code is stored until it is redeemed or expires. A place is held for as
/// long as the code is stored. Each process counts the codes that it created; a code that is redeemed at another
/// process keeps its place until it expires.
final class DeviceTickets: Sendable {
    /// A place that has no code yet.
    struct Place {
        fileprivate let ticket: Budget.Ticket
        fileprivate let address: ClientAddress?
    }

    private struct Holder {
        var code: String
        var expires: Int64
        var place: Place
    }

    private let budget: Budget
    private let onRefusal: @Sendable (Refusal) -> Void
    /// The holders in the order in which their codes were created, which is also the order in which they expire.
    private let holders = Mutex<[Holder]>([])

    init(_ limits: CallerLimits, onRefusal: @escaping @Sendable (Refusal) -> Void) {
        budget = Budget(.init(total: limits.deviceGrants, address: limits.addressDeviceGrants))
        self.onRefusal = onRefusal
    }

    /// The number of places in use.
    var taken: Int { budget.taken }

    /// Takes a place for a code requested by `peer`, after releasing the places of expired codes.
    ///
    /// - Throws: ``RequestError`` with status 429 if the share of the address is exhausted, and 503 if all places are
    ///   taken.
    func take(for peer: String, now: Int64) throws(RequestError) -> Place {
        let address = ClientAddress(peer)
        releaseExpired(now)
        do throws(Budget.Shortage) {
            return Place(ticket: try budget.take(address: address), address: address?.network)
        } catch {
            let isShare = error == .address
            onRefusal(isShare ? .addressRate : .overload)
            let first = holders.withLock { holders in
                holders.first { !isShare || $0.place.address == address?.network }?.expires
            }
            let delay = max(1, ((first ?? now) - now + 999) / 1_000)
            throw isShare
                ? RequestError(
                    .tooManyRequests, "too many devices of this address wait for approval; try again in \(delay) s",
                    retryAfter: delay)
                : RequestError(
                    .serviceUnavailable, "too many devices wait for approval; try again in \(delay) s",
                    retryAfter: delay)
        }
    }

    /// Holds `place` for `code` until it expires or is released.
    func hold(_ place: Place, for code: String, until expires: Int64) {
        holders.withLock { $0.append(Holder(code: code, expires: expires, place: place)) }
    }

    /// Releases a place for which no code was created.
    func release(_ place: Place) { budget.give(place.ticket) }

    /// Releases the place of `code`, which is no longer stored.
    func release(_ code: String) {
        let place = holders.withLock { holders in
            holders.firstIndex { $0.code == code }.map { holders.remove(at: $0).place }
        }
        if let place { release(place) }
    }

    private func releaseExpired(_ now: Int64) {
        let expired = holders.withLock { holders in
            let expired = Array(holders.prefix { DeviceGrants.isOver(expires: $0.expires, at: now) })
            holders.removeFirst(expired.count)
            return expired
        }
        for holder in expired { release(holder.place) }
    }
}
