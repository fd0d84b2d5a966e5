import Foundation

/// The lock that keeps a second background process from the same store.
///
/// It is a file beside the store with the process id of its holder. The system releases the lock when the process ends,
/// in whatever way.
package final class StoreLock: Sendable {
    private let path: String
    private let descriptor: Int32

    /// The path of the lock of the store at `path`.
    package static func path(ofStore path: String) -> String { path + ".run-lock" }

    /// Takes the lock.
    ///
    /// - Parameter path: The path of the store.
    /// - Throws: ``AgentError``, which names the process that holds the lock.
    package init(ofStore path: String) throws(AgentError) {
        self.path = Self.path(ofStore: path)
        while true {
            let descriptor = open(self.path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard descriptor >= 0 else {
                throw AgentError(.failed, "\(self.path): cannot be opened: \(String(cString: strerror(errno)))")
            }
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                let holder = Self.processID(in: descriptor)
                close(descriptor)
                throw AgentError(
                    .alreadyRunning,
                    "another syncd run is using this store" + (holder.map { " (process \($0))" } ?? "")
                        + "; stop it, or use its socket")
            }
            // The former holder may have removed the file between the two calls.
            guard Self.isFile(descriptor, at: self.path) else {
                close(descriptor)
                continue
            }
            let text = "\(getpid())\n"
            guard ftruncate(descriptor, 0) == 0, pwrite(descriptor, text, text.utf8.count, 0) == text.utf8.count else {
                let reason = String(cString: strerror(errno))
                close(descriptor)
                throw AgentError(.failed, "\(self.path): cannot be written: \(reason)")
            }
            self.descriptor = descriptor
            return
        }
    }

    deinit { Self.release(descriptor) }

    /// Removes the file, so that nothing is left beside the store. Call it at the end of the process.
    package func remove() { unlink(path) }

    /// The state of a lock.
    package enum State: Equatable, Sendable {
        case free
        /// A process holds the lock. Its id is `nil` if the process has not written it.
        case held(by: Int32?)
    }

    /// The process that holds the lock of the store at `path`; `nil` if none does.
    package static func holder(ofStore path: String) -> Int32? {
        if case .held(let process) = try? state(ofStore: path) { process } else { nil }
    }

    /// Examines the lock of the store at `path` and changes nothing.
    ///
    /// - Throws: ``AgentError`` if the file of the lock cannot be opened.
    package static func state(ofStore path: String) throws(AgentError) -> State {
        let path = Self.path(ofStore: path)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            guard errno != ENOENT, errno != ENOTDIR else { return .free }
            throw AgentError(.failed, "\(path): cannot be opened: \(String(cString: strerror(errno)))")
        }
        defer { Self.release(descriptor) }
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0 else { return .free }
        return .held(by: processID(in: descriptor))
    }

    /// Unlocks and closes the file of a lock. Closing alone does not unlock it while a child that has not yet replaced
    /// its image has a copy of the descriptor.
    private static func release(_ descriptor: Int32) {
        _ = flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    private static func processID(in descriptor: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        return Int32(String(decoding: bytes[..<count], as: UTF8.self).prefix { $0.isNumber })
    }

    private static func isFile(_ descriptor: Int32, at path: String) -> Bool {
        var (held, found) = (stat(), stat())
        return fstat(descriptor, &held) == 0 && lstat(path, &found) == 0 && held.st_ino == found.st_ino
            && held.st_dev == found.st_dev
    }
}
