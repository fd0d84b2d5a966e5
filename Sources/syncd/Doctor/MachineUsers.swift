import Foundation

/// The name of a user of this machine, or the number if it has none.
func userName(_ id: uid_t) -> String {
    var entry = passwd()
    var found: UnsafeMutablePointer<passwd>?
    var buffer = [CChar](repeating: 0, count: 16_384)
    guard getpwuid_r(id, &entry, &buffer, buffer.count, &found) == 0, let found else { return String(id) }
    return String(cString: found.pointee.pw_name)
}

/// The reason why this user has no access of the kind `mode` to `path`; `nil` if there is access.
func obstacle(to path: String, _ mode: Int32) -> String? {
    access(path, mode) == 0 ? nil : String(cString: strerror(errno))
}

/// The absolute path without symbolic links; `nil`, with the reason in `errno`, if there is no such file.
func resolvedPath(_ path: String) -> String? {
    guard let resolved = realpath(path, nil) else { return nil }
    defer { free(resolved) }
    return String(cString: resolved)
}

/// The mode of a file, such as 0640.
func modeText(_ status: stat) -> String { "0" + String(status.st_mode & 0o7777, radix: 8) }
