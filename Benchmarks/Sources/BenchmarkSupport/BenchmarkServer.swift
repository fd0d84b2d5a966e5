import Foundation

/// A `syncd serve` process on 127.0.0.1 with an SQLite store.
package final class BenchmarkServer {
    /// `http://127.0.0.1:PORT`, or `https`.
    package private(set) var url = ""
    /// The PEM file of the certificate authority, or `nil` for plain HTTP.
    package let certificates: String?
    private var process = Process()
    private let program: String
    private let arguments: [String]

    /// Starts `program` with its store and certificate in `folder`, and with more options of `syncd serve`.
    package init(program: String, folder: String, isSecure: Bool = false, options: [String] = []) throws {
        guard FileManager.default.isExecutableFile(atPath: program) else {
            exitWithFailure("\(program) is missing: swift build -c release --product syncd, or --syncd PROGRAM")
        }
        var arguments = [
            "serve", "--store", "sqlite:\(folder)/\(isSecure ? "secure" : "plain").sqlite", "--listen", "127.0.0.1:0",
            "--log-level", "error", "--limit", "account-reads=none", "--limit", "account-writes=none",
        ]
        arguments += options
        certificates = isSecure ? try Self.makeCertificate(in: folder) : nil
        if let certificates {
            arguments += ["--tls-certificate", certificates, "--tls-key", certificates]
        }
        (self.program, self.arguments) = (program, arguments)
        try start()
    }

    /// Starts the server again after ``end()``, at the same address.
    package func start() throws {
        process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        if let port = url.split(separator: ":").last, let place = arguments.firstIndex(of: "127.0.0.1:0") {
            process.arguments?[place] = "127.0.0.1:\(port)"
        }
        // Password hashing is not measured here.
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SYNCD_") }
            .merging(["SYNCD_PASSWORD_COST": "10"]) { $1 }
        let output = Pipe()
        process.standardOutput = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        var line: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") {
            line.append(byte)
        }
        let text = String(decoding: line, as: UTF8.self)
        guard text.hasPrefix("listening on ") else {
            process.terminate()
            process.waitUntilExit()
            exitWithFailure("\(program) did not start to listen; see its output for the reason")
        }
        url = String(text.dropFirst("listening on ".count))
    }

    /// Stops the server.
    package func end() {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }

    /// Creates a certificate for 127.0.0.1 and its key in one file.
    private static func makeCertificate(in folder: String) throws -> String {
        let path = folder + "/certificate.pem"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
            "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", path, "-out",
            folder + "/chain.pem",
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { exitWithFailure("openssl makes no certificate") }
        let chain = try String(contentsOfFile: folder + "/chain.pem", encoding: .utf8)
        let key = try String(contentsOfFile: path, encoding: .utf8)
        try (chain + key).write(toFile: path, atomically: false, encoding: .utf8)
        chmod(path, 0o600)
        return path
    }
}
