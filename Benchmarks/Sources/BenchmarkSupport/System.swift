#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Ends the process with one line on standard error.
package func exitWithFailure(_ reason: String, code: Int32 = 1) -> Never {
    let program = CommandLine.arguments[0].split(separator: "/").last ?? "benchmarks"
    let line = "\(program): \(reason)\n"
    _ = line.withCString { write(2, $0, strlen($0)) }
    exit(code)
}

/// Ends the process unless `condition` holds, so that a wrong result is never timed.
package func expect(_ condition: Bool, _ expectation: String) {
    guard !condition else { return }
    exitWithFailure("wrong before it was timed, expected: \(expectation)")
}

/// Ends a debug build unless it runs in its short form, because its times would mean nothing.
package func requireRelease(unless isShort: Bool) {
    #if DEBUG
    if !isShort { exitWithFailure("a debug build runs only with --short; build with --configuration release") }
    #endif
}

/// A template for `mkstemp` in the temporary folder.
private func temporaryTemplate() -> [CChar] {
    let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    return Array("\(folder)/entitlementsync-bench-XXXXXX".utf8CString)
}

/// Creates a file with these bytes in the temporary folder. The caller removes it.
package func temporaryFile(_ bytes: [UInt8]) -> String {
    var template = temporaryTemplate()
    let file = mkstemp(&template)
    guard file >= 0, write(file, bytes, bytes.count) == bytes.count else {
        exitWithFailure("cannot write a temporary file")
    }
    close(file)
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// Creates a folder in the temporary folder. The caller removes it.
package func temporaryFolder() -> String {
    var template = temporaryTemplate()
    guard mkdtemp(&template) != nil else { exitWithFailure("cannot make a temporary folder") }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// Removes a file.
package func removeFile(_ path: String) {
    unlink(path)
}

/// Removes a folder and its contents.
package func removeFolder(_ path: String) {
    guard let folder = opendir(path) else { return }
    while let item = readdir(folder) {
        let name = withUnsafeBytes(of: item.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        if name == "." || name == ".." { continue }
        if item.pointee.d_type == UInt8(DT_DIR) { removeFolder("\(path)/\(name)") } else { unlink("\(path)/\(name)") }
    }
    closedir(folder)
    rmdir(path)
}
