import SyncCore
import Synchronization

/// A file of a model folder. A partly copied file has the version that its header states.
struct ModelFile: Equatable {
    var bytes: [UInt8]
    var version: EntryVersion
    var isWhole = true

    var facts: UInt64 {
        guard isWhole else { return 0 }
        do { return try FactSetMerge().open(bytes).content } catch { return 0 }
    }
}

/// One device's copy of a shared folder, in memory: the view that `FileBackend` has of such a folder.
final class ModelFolder: KeyValueBackend {
    let capabilities = Capabilities(
        compareAndSwap: false, durability: .process, changes: false, signals: .polled, sharedBetweenProcesses: false)
    let label = "model:"

    /// The files by name, below the one document that is synced.
    private let files = Mutex<[String: ModelFile]>([:])
    private let counts = Mutex((lists: 0, reads: 0, writes: 0))
    private let host: HostServices
    private let prefix: String

    init(host: HostServices, document: EntryKey) {
        self.host = host
        prefix = document.text + "/"
    }

    subscript(name: String) -> ModelFile? {
        get { files.withLock { $0[name] } }
        set { files.withLock { $0[name] = newValue } }
    }

    var all: [String: ModelFile] {
        get { files.withLock { $0 } }
        set { files.withLock { $0 = newValue } }
    }

    /// Returns the requests since the last call.
    func takeCounts() -> (lists: Int, reads: Int, writes: Int) {
        counts.withLock { counts in
            defer { counts = (0, 0, 0) }
            return counts
        }
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        counts.withLock { $0.reads += 1 }
        guard let file = self[String(key.text.dropFirst(prefix.count))] else { return Answer(.absent) }
        guard file.isWhole else { throw BackendError(.damaged, operation: .read, key: key, message: "partly copied") }
        return Answer(.found(Entry(value: file.bytes, version: file.version)))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard precondition == .any else { throw BackendError(.unsupported, message: "no preconditions") }
        counts.withLock { $0.writes += 1 }
        var generator = host.generator
        let version = EntryVersion.random(using: &generator)
        self[String(key.text.dropFirst(prefix.count))] = ModelFile(bytes: value, version: version)
        return Answer(.written(version))
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        throw BackendError(.unsupported, message: "nothing is ever deleted")
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        counts.withLock { $0.lists += 1 }
        var items: [KeyPage.Item] = []
        for (name, file) in all.sorted(by: { $0.key < $1.key }) {
            items.append(KeyPage.Item(key: try EntryKey(self.prefix + name), version: file.version))
        }
        return Answer(KeyPage(items: items, next: nil))
    }
}
