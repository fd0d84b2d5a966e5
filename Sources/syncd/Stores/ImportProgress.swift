import Foundation
import SyncCore

/// The progress of an import, shown only on a terminal.
final class ImportProgress {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let now = HostServices.system.now
    private var (total, title) = (0, "")
    private var (start, last): (Int64, Int64) = (0, 0)
    private var isShown = false

    /// Begins to read a file of `total` bytes.
    ///
    /// - Parameter title: The act and its objects, such as "importing users".
    func begin(of total: Int, _ title: String) {
        (self.total, self.title, start, last) = (total, title, now(), now())
    }

    /// Shows that `byteCount` bytes with `count` objects were read, at most ten times a second.
    func show(_ byteCount: Int, _ count: Int) {
        guard isTerminal, count.isMultiple(of: 256) else { return }
        let time = now()
        guard time - last >= 100 else { return }
        (last, isShown) = (time, true)
        let rate = Int64(count) * 1_000 / max(1, time - start)
        let bar = CopyProgress.bar(byteCount, of: total)
        FileHandle.standardError.write(Data("\r\u{1B}[K\(bar), \(title): \(count), \(rate)/s".utf8))
    }

    /// Removes the line from the terminal.
    func clear() {
        if isShown { FileHandle.standardError.write(Data("\r\u{1B}[K".utf8)) }
        isShown = false
    }
}
