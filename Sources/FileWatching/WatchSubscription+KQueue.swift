#if canImport(Darwin)
import Darwin
import Dispatch
import Synchronization

/// One watcher of one folder.
///
/// A source for the folder tells of names that come and go; one for each file that matters tells of its content, and
/// is replaced when the name gets another file.
final class WatchSubscription: Sendable {
    private struct State {
        var isCancelled = false
        var folderSource: (any DispatchSourceFileSystemObject)?
        var fileSources: [(name: String, source: any DispatchSourceFileSystemObject)] = []
    }

    private let folder: String
    private let names: [String]
    private let onChange: @Sendable () -> Void
    private let state = Mutex(State())

    init(folder: String, names: [String]?, onChange: @escaping @Sendable () -> Void) throws(FolderWatchError) {
        self.folder = folder
        self.names = names ?? []
        self.onChange = onChange
        guard let source = source(at: folder, hasFiles: true) else {
            throw FolderWatchError(folder: folder, code: errno)
        }
        state.withLock { $0.folderSource = source }
        source.activate()
        watchFiles()
    }

    /// Always: a descriptor of the folder is open, so its number is given to no other.
    var isLive: Bool { true }

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            state.folderSource?.cancel()
            for file in state.fileSources { file.source.cancel() }
            state.folderSource = nil
            state.fileSources = []
        }
    }

    private func watchFiles() {
        state.withLock { state in
            guard !state.isCancelled else { return }
            for file in state.fileSources { file.source.cancel() }
            state.fileSources = names.compactMap { name in
                source(at: "\(folder)/\(name)", hasFiles: false).map { (name, $0) }
            }
            for file in state.fileSources { file.source.activate() }
        }
    }

    private func source(at path: String, hasFiles: Bool) -> (any DispatchSourceFileSystemObject)? {
        let descriptor = open(path, O_EVTONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let source = DispatchSource.makeFileSystemObjectSource(
            fileDescriptor: descriptor, eventMask: [.write, .extend, .attrib, .delete, .rename, .link])
        source.setEventHandler { [weak self] in
            guard let self else { return }
            if hasFiles { self.watchFiles() }
            self.onChange()
        }
        source.setCancelHandler { close(descriptor) }
        return source
    }
}
#endif
