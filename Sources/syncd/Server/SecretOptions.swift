import ArgumentParser
import Entitlements
import Foundation
import SyncCore

/// The rule for files with secrets that an administrator provides: tokens and private keys.
struct SecretOptions: ParsableArguments {
    @Flag(help: .setting("allow-open-secrets")) var allowOpenSecrets = false

    /// Throws if every user of this machine can read or replace the file at `path`.
    ///
    /// Access by the file's group is allowed: a server often runs as its own user, who is in that group. Files from
    /// systemd or a container runtime are allowed too: the administrator cannot choose their modes, and other users
    /// cannot enter their folders. A missing file passes, because reading it reports the error.
    ///
    /// - Parameter setting: the setting that names the file, for the error.
    func check(_ path: String, of setting: String) throws(Failure) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_mode & 0o006 != 0 else { return }
        let isAllowed = try isSet("SYNCD_ALLOW_OPEN_SECRETS")
        guard !allowOpenSecrets, !isAllowed, !Self.isProvided(path) else { return }
        throw Failure(
            .usage,
            "--\(setting): \(path.singleLine) has mode \(modeText(status)), so every user of this machine has access "
                + "to the secret in it: chmod o-rwx \(path.singleLine), and replace the secret if others may have read "
                + "it; or allow this with --allow-open-secrets", of: [setting, "allow-open-secrets"])
    }

    /// Returns `true` if systemd or a container runtime provides the file.
    private static func isProvided(_ path: String) -> Bool {
        guard let file = resolvedPath(path) else { return false }
        return [environmentVariable("CREDENTIALS_DIRECTORY"), "/run/secrets"].contains { folder in
            folder.flatMap(resolvedPath).map { $0 != "/" && file.hasPrefix($0 + "/") } ?? false
        }
    }
}
