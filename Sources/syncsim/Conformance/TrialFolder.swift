import Entitlements
import Foundation

/// An empty folder for test stores, which is restored to its initial state afterwards.
struct TrialFolder {
    /// The absolute path, valid for child processes too.
    let path: String
    private let wasThere: Bool

    /// Uses the folder at `path`, which must be empty, or creates it.
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
                    .usage, "\(path.singleLine) is not a folder; name an empty or a new folder")
            } else if try !files.contentsOfDirectory(atPath: path).isEmpty {
                throw Failure(
                    .usage, "\(path.singleLine) is not empty; name an empty or a new folder")
            }
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure(.failed, "\(path.singleLine): cannot create stores there: \(error.localizedDescription)")
        }
    }

    /// Removes everything that was created.
    func clear() throws(Failure) {
        do {
            let names = try FileManager.default.contentsOfDirectory(atPath: path).sorted()
            let made = wasThere ? names.map { "\(path)/\($0)" } : [path]
            if !made.isEmpty { try Self.remove(made) }
        } catch {
            throw Failure(.failed, "\(path.singleLine): cannot remove the stores of the checks: \(error)")
        }
    }

    /// Uses `rm`, because FileManager cannot handle the longest paths that the checks create.
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
