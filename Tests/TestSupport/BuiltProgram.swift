import Foundation
package import SyncCore
package import SyncCoreTesting

/// Executables that were built together with the running tests.
public enum BuiltProgram {
    /// The path of the executable `name`.
    public static func path(of name: String) -> String {
        let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? tests.path
        return URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent(name).path
    }

    /// Starts `StoreProbe`. If `wrapper` is not empty, it is a program with arguments that runs `StoreProbe`.
    package static func startProbe(
        _ arguments: String..., by wrapper: [String] = []
    ) throws(BackendError) -> ChildProcess {
        let command = wrapper + [path(of: "StoreProbe")] + arguments
        return try ChildProcess(command[0], Array(command.dropFirst()))
    }
}
