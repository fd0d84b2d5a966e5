import Entitlements

/// The access to an entitlement that the model derives.
enum ModelAccess: Equatable {
    /// A product is owned.
    case owned
    /// Paid time ends at this date.
    case paid(until: Int64)
    /// This number of units is left.
    case units(Int64)
    /// Nothing grants access; the last paid time, if any, ended at this date.
    case denied(lastEnd: Int64?)

    /// Returns `true` if `access` is the same decision. A denial after paid time has a reason that precedes its expiry,
    /// or one that is as late.
    func agrees(with access: Access) -> Bool {
        switch (self, access) {
        case (.owned, .granted(let grant)):
            if case .product = grant.source { grant.units == nil } else { false }
        case (.paid(let until), .granted(let grant)):
            grant.units == nil && until == grant.until?.milliseconds ?? ModelCalendar.latest
        case (.units(let units), .granted(let grant)): grant.units == units && grant.until == nil
        case (.denied(let lastEnd), .denied(.expired(let date))): lastEnd == date.milliseconds
        case (.denied(let lastEnd?), .denied(.revoked(let date))): lastEnd <= date.milliseconds
        case (.denied(_?), .denied(.notPurchased)), (.denied(_?), .denied(.usedUp)): false
        case (.denied, .denied): true
        default: false
        }
    }
}

extension ModelReplay {
    /// The access to `entitlement` at `instant`.
    func access(
        to entitlement: Entitlement, in catalog: Catalog, _ scope: ModelScope, at instant: Int64
    ) -> ModelAccess {
        var paid: [ModelSpan] = []
        var units: Int64 = 0
        for source in entitlement.grantedBy {
            switch source {
            case .product(let id):
                if owns(id.rawValue, at: instant) { return .owned }
                guard case .autoRenewable = catalog[product: id]?.kind else { continue }
                paid += coverage(ofProduct: id.rawValue).filter { $0.start <= instant }.suffix(1)
            case .group(let id): paid += coverage(of: id.rawValue).filter { $0.start <= instant }.suffix(1)
            case .level(let id, let level):
                paid += coverage(of: id.rawValue, atLevel: level).filter { $0.start <= instant }.suffix(1)
            case .units(let id): units = units == 0 ? balance(of: id.rawValue, scope, at: instant) : units
            }
        }
        let lastEnd = paid.map(\.end).max()
        if let lastEnd, instant < lastEnd { return .paid(until: lastEnd) }
        return units > 0 ? .units(units) : .denied(lastEnd: lastEnd)
    }
}
