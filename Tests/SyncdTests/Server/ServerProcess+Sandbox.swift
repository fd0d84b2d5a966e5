import TestSupport

extension ServerProcess {
    /// Starts a server with a database in the folder of `sandbox`.
    ///
    /// - Parameter port: the port; 0 for a free one.
    convenience init(_ sandbox: Sandbox, port: Int = 0) throws {
        try self.init(
            store: "sqlite:\(sandbox.path("server.sqlite"))", options: ["--listen", "127.0.0.1:\(port)"],
            environment: ["SYNCD_LOG_LEVEL": "error"])
    }
}
