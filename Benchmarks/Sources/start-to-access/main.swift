import Entitlements

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

// The work of an app before its first screen: read the ledger and the catalogue from disk, derive one answer. Files are
// read with the C library only, so that the time is that of this package.

func contents(of path: String) -> [UInt8] {
    let file = open(path, O_RDONLY)
    guard file >= 0 else { fail("cannot open \(path)") }
    defer { close(file) }
    let size = Int(lseek(file, 0, SEEK_END))
    let bytes = [UInt8](unsafeUninitializedCapacity: max(0, size)) { buffer, count in
        count = max(0, pread(file, buffer.baseAddress, size, 0))
    }
    guard bytes.count == size else { fail("cannot read \(path)") }
    return bytes
}

func fail(_ reason: String) -> Never {
    let line = "start-to-access: \(reason)\n"
    _ = line.withCString { write(2, $0, strlen($0)) }
    exit(1)
}

let arguments = CommandLine.arguments
guard arguments.count == 4, let milliseconds = Int64(arguments[3]) else {
    fail("usage: start-to-access LEDGER CATALOGUE MILLISECONDS-SINCE-1970")
}
do {
    let document = try LedgerDocument(decoding: contents(of: arguments[1]))
    let catalog = try Catalog(json: contents(of: arguments[2]))
    let replay = Replay(Facts(account: document.ledger), catalog: catalog)
    let access = replay.access(to: "random-owls", at: Timestamp(milliseconds: milliseconds))
    exit(access?.isGranted == true ? 0 : 10)
} catch {
    fail("\(error)")
}
