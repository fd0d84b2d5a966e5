import Foundation

/// The local users whom the socket serves.
package struct LocalUsers: Sendable {
    /// The permissions of a user.
    package enum Permission: Comparable, Sendable {
        case none
        case read
        case act
    }

    private let owner: UInt32
    private let group: UInt32?
    private let groupMayAct: Bool

    /// - Parameters:
    ///   - owner: The user of the process, who may do everything, as the superuser may.
    ///   - group: The group whose members may read.
    ///   - groupMayAct: True if the members may also spend units, record evidence, and log in and out.
    package init(owner: UInt32 = geteuid(), group: UInt32? = nil, groupMayAct: Bool = false) {
        (self.owner, self.group, self.groupMayAct) = (owner, group, groupMayAct)
    }

    /// The permission of the user with this id.
    package func permission(of user: UInt32?) -> Permission {
        guard let user else { return .none }
        if user == owner || user == 0 { return .act }
        guard let group, Self.groups(of: user).contains(group) else { return .none }
        return groupMayAct ? .act : .read
    }

    /// The id of a group; `nil` if there is no group of this name.
    package static func group(named name: String) -> UInt32? {
        var entry = group_entry()
        var found: UnsafeMutablePointer<group_entry>?
        var buffer = [CChar](repeating: 0, count: 65_536)
        guard getgrnam_r(name, &entry, &buffer, buffer.count, &found) == 0, let found else { return nil }
        return UInt32(found.pointee.gr_gid)
    }

    /// All groups of a user, by the system's user database.
    package static func groups(of user: UInt32) -> [UInt32] {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16_384)
        guard getpwuid_r(uid_t(user), &entry, &buffer, buffer.count, &found) == 0, let found else { return [] }
        var count: Int32 = 1_024
        var groups = [gid_t](repeating: 0, count: Int(count))
        guard getgrouplist(found.pointee.pw_name, found.pointee.pw_gid, &groups, &count) >= 0 else { return [] }
        return groups.prefix(Int(count)).map { UInt32($0) }
    }
}

private typealias group_entry = group
