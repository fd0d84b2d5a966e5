import BenchmarkSupport

/// Times devices against a real server, each beside raw libcurl that asks for the same.
@main
struct WireBenchmarks {
    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        var syncd = repositoryPath + "/.build/release/syncd"
        var isJSON = false
        var index = 0
        while index < arguments.count {
            switch arguments[index] {
            case "--json": isJSON = true
            case "--syncd" where index + 1 < arguments.count:
                syncd = arguments[index + 1]
                index += 1
            default: exitWithFailure(usage)
            }
            index += 1
        }
        #if DEBUG
        exitWithFailure("a debug build measures nothing of use, run with -c release")
        #else
        let folder = temporaryFolder()
        defer { removeFolder(folder) }
        let report = WireReport(
            wires: [
                await WireRows(program: syncd, folder: folder, isSecure: false).measure(),
                await WireRows(program: syncd, folder: folder, isSecure: true).measure(),
            ])
        print(isJSON ? report.json : report.text)
        #endif
    }

    private static let usage = "usage: wire-benchmarks [--json] [--syncd PROGRAM, built with -c release]"

    /// Where the sources are: four levels above this file.
    private static var repositoryPath: String {
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
    }
}
