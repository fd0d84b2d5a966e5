import BenchmarkSupport

/// Times devices against a real server, each beside raw libcurl that asks for the same.
@main
struct WireBenchmarks {
    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        var syncd = repositoryPath + "/.build/release/syncd"
        var rounds = 51
        var isJSON = false
        var index = 0
        while index < arguments.count {
            switch arguments[index] {
            case "--json": isJSON = true
            case "--syncd" where index + 1 < arguments.count:
                syncd = arguments[index + 1]
                index += 1
            case "--rounds" where index + 1 < arguments.count:
                guard let count = Int(arguments[index + 1]), (1...10_000).contains(count) else {
                    exitWithFailure(usage)
                }
                rounds = count
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
                await WireRows(program: syncd, folder: folder, isSecure: false, rounds: rounds).measure(),
                await WireRows(program: syncd, folder: folder, isSecure: true, rounds: rounds).measure(),
            ])
        print(isJSON ? report.json : report.text)
        #endif
    }

    private static let usage =
        "usage: wire-benchmarks [--json] [--rounds COUNT] [--syncd PROGRAM, built with -c release]"

    /// Where the sources are: four levels above this file.
    private static var repositoryPath: String {
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
    }
}
