import Foundation

/// A folder of a test's own, removed with the object.
public final class TemporaryFolder: Sendable {
    /// Where it is.
    public let path: String

    /// Makes an empty folder.
    ///
    /// - Parameter inMemory: whether nothing in it needs a disk, so that it need not wait for one, where the system has
    ///   such a place.
    public init(inMemory: Bool = false) throws {
        let memory = "/dev/shm/"
        let isInMemory = inMemory && FileManager.default.isWritableFile(atPath: memory)
        let parent = isInMemory ? memory : NSTemporaryDirectory()
        var template = Array("\(parent)entitlementsync-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw CocoaError(.fileWriteUnknown) }
        path = String(cString: made)
    }

    deinit {
        // Not through FileManager, which cannot follow the longest paths that the tests make.
        let removal = Process()
        removal.executableURL = URL(fileURLWithPath: "/bin/rm")
        removal.arguments = ["-rf", path]
        do { try removal.run() } catch { print("left behind: \(path): \(error)") }
        ProcessEnd(of: removal).wait()
    }

    /// The path of something in it.
    public func path(of name: String) -> String { "\(path)/\(name)" }

    /// The path of a new, empty folder in it.
    public func freshFolder() throws -> String {
        var template = Array("\(path)/XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw CocoaError(.fileWriteUnknown) }
        return String(cString: made)
    }
}
