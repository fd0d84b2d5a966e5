import Foundation

/// A temporary folder of a test, removed when the object is deallocated.
public final class TemporaryFolder: Sendable {
    /// The path of the folder.
    public let path: String

    /// Creates an empty folder.
    ///
    /// - Parameter inMemory: True for a folder in memory, if the system has such a place, for files that need no disk.
    public init(inMemory: Bool = false) throws {
        let memory = "/dev/shm/"
        let isInMemory = inMemory && FileManager.default.isWritableFile(atPath: memory)
        let parent = isInMemory ? memory : NSTemporaryDirectory()
        var template = Array("\(parent)entitlementsync-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw CocoaError(.fileWriteUnknown) }
        path = String(cString: made)
    }

    deinit {
        // Not FileManager, which cannot follow the longest paths that the tests create.
        let removal = Process()
        removal.executableURL = URL(fileURLWithPath: "/bin/rm")
        removal.arguments = ["-rf", path]
        do { try removal.run() } catch { print("left behind: \(path): \(error)") }
        ProcessEnd(of: removal).wait()
    }

    /// The path of an item in the folder.
    public func path(of name: String) -> String { "\(path)/\(name)" }

    /// Creates an empty folder inside it and returns the path.
    public func freshFolder() throws -> String {
        var template = Array("\(path)/XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw CocoaError(.fileWriteUnknown) }
        return String(cString: made)
    }
}
