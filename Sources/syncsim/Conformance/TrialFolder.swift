import Entitlements
import Foundation

/// An empty folder in which stores may be made, and which is left as it was found.
struct TrialFolder {
    /// Absolute, so that child processes mean the same folder.
    let path: String
    private let wasThere: Bool

    /// Takes the folder at `path`, which must be empty, or makes it.
    init(_ path: String) throws(Failure) {
        let files = FileManager.default
        self.path = URL(filePath: path).path(percentEncoded: false)
        var isFolder: ObjCBool = false
        wasThere = files.fileExists(atPath: path, isDirectory: &isFolder)
        do {
            if !wasThere {
                try files.createDirectory(atPath: path, withIntermediateDirectories: false)
            } else if !isFolder.boolValue {
                throw Failure(
                    .usage, "\(path.singleLine) is no folder; name an empty one, or one that is not there yet")
            } else if try !files.contentsOfDirectory(atPath: path).isEmpty {
                throw Failure(
                    .usage, "\(path.singleLine) is not empty; name an empty folder, or one that is not there yet")
            }
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure(.failed, "\(path.singleLine): no stores can be made there: \(error.localizedDescription)")
        }
    }

    /// Removes what was made.
    func clear() throws(Failure) {
        do {
            let names = try FileManager.default.contentsOfDirectory(atPath: path).sorted()
            let made = wasThere ? names.map { "\(path)/\($0)" } : [path]
            if !made.isEmpty { try Self.remove(made) }
        } catch {
            throw Failure(.failed, "\(path.singleLine): what the checks made cannot be removed: \(error)")
        }
    }

    /// Not through FileManager, which cannot follow the longest paths that the checks make.
    private static func remove(_ paths: [String]) throws {
        let removal = Process()
        removal.executableURL = URL(filePath: "/bin/rm")
        removal.arguments = ["-rf", "--"] + paths
        try removal.run()
        removal.waitUntilExit()
        guard removal.terminationStatus == 0 else {
            throw Failure(.failed, "rm ended with \(removal.terminationStatus)")
        }
    }
}
