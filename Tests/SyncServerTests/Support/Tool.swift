import Foundation
import TestSupport

/// Runs an installed program, such as curl or openssl.
enum Tool {
    struct Outcome: Equatable {
        var exitCode: Int32
        var output: String
        var errors: String
    }

    /// Runs a program to its end. Its output must fit into a pipe.
    static func run(_ program: String, _ arguments: [String], in folder: String? = nil) throws -> Outcome {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        if let folder { process.currentDirectoryURL = URL(filePath: folder) }
        let (output, errors) = (Pipe.closedOnExec(), Pipe.closedOnExec())
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let (printed, failed) = (output.textToEnd(), errors.textToEnd())
        return Outcome(exitCode: ProcessEnd(of: process).wait(), output: printed, errors: failed)
    }

    /// Creates a self-signed certificate for localhost: `certificate.pem` and `key.pem` in `folder`.
    static func makeCertificate(in folder: String) throws -> Outcome {
        try run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem",
                "-out", "certificate.pem", "-days", "2", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1",
            ], in: folder)
    }
}
