#if canImport(Darwin)
import Darwin
import Dispatch
import Synchronization

/// A subscription to the changes of one folder.
///
/// One dispatch source reports added and removed names of the folder. One more for each watched file reports changes to
/// its content; it is replaced when the folder changes, because the name may then belong to another file.
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

    /// Always true: the open descriptor of the folder keeps its inode number from being reused.
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
