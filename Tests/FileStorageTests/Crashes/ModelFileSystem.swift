import FileStorage
import FileWatching
import Foundation
import SyncCore
import SyncCoreTesting
import Synchronization

/// A file system in memory that ends at a given call, because the process was killed or the power was cut.
///
/// It can also treat different names as equal, or report a sync that it did not perform.
final class ModelFileSystem: FileSystem {
    /// The comparison of names.
    enum Naming: CaseIterable, Sendable {
        /// By bytes.
        case exact
        /// Case-insensitive and normalization-insensitive, as on macOS. The first spelling is preserved.
        case folding
        /// Case-insensitive, with names stored in decomposed form.
        case decomposing

        fileprivate func identity(of name: String) -> String {
            self == .exact ? name : name.lowercased().decomposedStringWithCanonicalMapping
        }

        fileprivate func spelling(of name: String) -> String {
            self == .decomposing ? name.decomposedStringWithCanonicalMapping : name
        }
    }

    /// The kind of sync that is reported but not performed.
    enum Lie: Sendable {
        case file, folder
    }

    private struct State {
        var disk: ModelDisk
        var calls: [String] = []
        var end: Int?
        var isOver = false
        var nextDescriptor: Int32 = 3
        var open: [Int32: Int] = [:]
        /// The locked node of each descriptor that has a lock.
        var locks: [Int32: Int] = [:]
        var generator: SeededGenerator
    }

    private let state: Mutex<State>
    private let naming: Naming
    private let lie: Lie?

    /// - Parameters:
    ///   - end: The number of the call at which everything ends; `nil` for never.
    ///   - seed: Decides whether the last call is performed.
    init(_ disk: ModelDisk = ModelDisk(), naming: Naming = .exact, lie: Lie? = nil, end: Int? = nil, seed: UInt64 = 0) {
        state = Mutex(State(disk: disk, end: end, generator: SeededGenerator(seed: seed)))
        self.naming = naming
        self.lie = lie
    }

    /// The calls so far.
    var calls: [String] { state.withLock { $0.calls } }
    /// True once the last call was reached.
    var isOver: Bool { state.withLock { $0.isOver } }
    /// The disk and its visible state.
    var disk: ModelDisk { state.withLock { $0.disk } }

    /// Ends at the call that follows `count` more calls.
    func end(after count: Int) {
        state.withLock { $0.end = $0.calls.count + count }
    }

    /// Continues for other processes after the running one was killed.
    func resume() {
        state.withLock { state in
            state.end = nil
            state.isOver = false
            state.open = [:]
            state.locks = [:]
        }
    }

    /// All paths, for inspection by tests.
    func paths(below folder: Int = 0, at path: String = "") -> [String] {
        let names = disk[folder].names.values.sorted { $0.spelling < $1.spelling }
        return names.flatMap { name -> [String] in
            let path = "\(path)/\(name.spelling)"
            return [path] + (disk[name.node].isFolder ? paths(below: name.node, at: path) : [])
        }
    }

    /// Performs `body` as one call, or ends before or after it.
    private func call<Result>(
        _ name: String, _ path: String, _ body: (inout State) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try state.withLock { (state) throws(FileSystemError) in
            let gone = FileSystemError(call: name, path: path, code: EIO)
            if state.isOver { throw gone }
            state.calls.append(name)
            guard state.calls.count - 1 == state.end else { return try body(&state) }
            state.isOver = true
            if Bool.random(using: &state.generator) { _ = try body(&state) }
            throw gone
        }
    }

    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> OpenFile {
        try call("open", path) { (state) throws(FileSystemError) in
            let found = try find("open", path, state)
            let node: Int
            switch (found.name?.node, mode) {
            case (nil, .createNew), (nil, .createShared):
                node = state.disk.add(isFolder: false)
                bind(path, in: found.folder, to: node, &state)
            case (_?, .createNew): throw FileSystemError(call: "open", path: path, code: EEXIST)
            case (nil, _): throw FileSystemError(call: "open", path: path, code: ENOENT)
            case (let there?, _): node = there
            }
            let isForFolder = mode == .folder || mode == .plainFolder
            guard state.disk[node].isFolder == isForFolder else {
                throw FileSystemError(call: "open", path: path, code: isForFolder ? ENOTDIR : EISDIR)
            }
            state.nextDescriptor += 1
            state.open[state.nextDescriptor] = node
            return OpenFile(descriptor: state.nextDescriptor, path: path)
        }
    }

    func close(_ file: OpenFile) {
        state.withLock { state in
            state.open[file.descriptor] = nil
            state.locks[file.descriptor] = nil
        }
    }

    func read(
        _ file: OpenFile, into buffer: UnsafeMutableRawBufferPointer, at offset: Int
    ) throws(FileSystemError) -> Int {
        let rest = try call("read", file.path) { (state) throws(FileSystemError) in
            Array(state.disk[try node(file, state)].content.dropFirst(offset).prefix(buffer.count))
        }
        buffer.copyBytes(from: rest)
        return rest.count
    }

    func write(_ file: OpenFile, _ bytes: UnsafeRawBufferPointer, at offset: Int) throws(FileSystemError) {
        let bytes = Array(bytes)
        try call("write", file.path) { (state) throws(FileSystemError) in
            let node = try node(file, state)
            // A killed process may have written only the beginning.
            let isLast = state.isOver && Bool.random(using: &state.generator)
            let count = isLast ? Int.random(in: 0...bytes.count, using: &state.generator) : bytes.count
            state.disk.write(Array(bytes.prefix(count)), to: node, at: offset)
        }
    }

    func synchronize(_ file: OpenFile) throws(FileSystemError) {
        try call("fsync", file.path) { (state) throws(FileSystemError) in
            let node = try node(file, state)
            let isLie = lie == (state.disk[node].isFolder ? .folder : .file)
            if !isLie { state.disk.synchronize(node) }
        }
    }

    func tryLock(_ file: OpenFile) throws(FileSystemError) -> Bool {
        try call("flock", file.path) { (state) throws(FileSystemError) in
            let node = try node(file, state)
            if state.locks.contains(where: { $0.key != file.descriptor && $0.value == node }) { return false }
            state.locks[file.descriptor] = node
            return true
        }
    }

    func byteCount(of file: OpenFile) throws(FileSystemError) -> Int {
        try call("fstat", file.path) { (state) throws(FileSystemError) in
            state.disk[try node(file, state)].content.count
        }
    }

    func identity(of file: OpenFile) throws(FileSystemError) -> FileIdentity {
        try call("fstat", file.path) { (state) throws(FileSystemError) in
            FileIdentity(device: 1, number: UInt64(try node(file, state)))
        }
    }

    func identity(at path: String) throws(FileSystemError) -> FileIdentity {
        try call("stat", path) { (state) throws(FileSystemError) in
            guard let name = try find("stat", path, state).name else {
                throw FileSystemError(call: "stat", path: path, code: ENOENT)
            }
            return FileIdentity(device: 1, number: UInt64(name.node))
        }
    }

    func rename(_ source: String, to target: String) throws(FileSystemError) {
        try call("rename", target) { (state) throws(FileSystemError) in
            let from = try find("rename", source, state)
            guard let name = from.name else { throw FileSystemError(call: "rename", path: source, code: ENOENT) }
            bind(source, in: from.folder, to: nil, &state)
            bind(target, in: try find("rename", target, state).folder, to: name.node, &state)
        }
    }

    func removeFile(_ path: String) throws(FileSystemError) {
        try call("unlink", path) { (state) throws(FileSystemError) in
            let found = try find("unlink", path, state)
            guard found.name != nil else { throw FileSystemError(call: "unlink", path: path, code: ENOENT) }
            bind(path, in: found.folder, to: nil, &state)
        }
    }

    func createFolder(_ path: String) throws(FileSystemError) {
        try call("mkdir", path) { (state) throws(FileSystemError) in
            let found = try find("mkdir", path, state)
            guard found.name == nil else { throw FileSystemError(call: "mkdir", path: path, code: EEXIST) }
            bind(path, in: found.folder, to: state.disk.add(isFolder: true), &state)
        }
    }

    func names(inFolder path: String) throws(FileSystemError) -> [String] {
        try call("readdir", path) { (state) throws(FileSystemError) in
            guard let node = try find("readdir", path, state).name?.node else {
                throw FileSystemError(call: "readdir", path: path, code: ENOENT)
            }
            return state.disk[node].names.values.map(\.spelling).sorted()
        }
    }
}

extension ModelFileSystem {
    private static func components(_ path: String) -> [String] { path.split(separator: "/").map(String.init) }

    /// The folder of `path` and the name in it.
    private func find(
        _ call: String, _ path: String, _ state: State
    ) throws(FileSystemError) -> (folder: Int, name: ModelDisk.Name?) {
        var folder = 0
        let components = Self.components(path)
        for name in components.dropLast() {
            guard let next = state.disk[folder].names[naming.identity(of: name)] else {
                throw FileSystemError(call: call, path: path, code: ENOENT)
            }
            guard state.disk[next.node].isFolder else {
                throw FileSystemError(call: call, path: path, code: ENOTDIR)
            }
            folder = next.node
        }
        guard let last = components.last else { return (0, ModelDisk.Name(spelling: "", node: 0)) }
        return (folder, state.disk[folder].names[naming.identity(of: last)])
    }

    private func bind(_ path: String, in folder: Int, to node: Int?, _ state: inout State) {
        let name = Self.components(path).last ?? ""
        let identity = naming.identity(of: name)
        // A file that replaces another one keeps the existing spelling.
        let spelling = state.disk[folder].names[identity]?.spelling ?? naming.spelling(of: name)
        state.disk.bind(identity, in: folder, to: node.map { ModelDisk.Name(spelling: spelling, node: $0) })
    }

    private func node(_ file: OpenFile, _ state: State) throws(FileSystemError) -> Int {
        guard let node = state.open[file.descriptor] else {
            throw FileSystemError(call: "read", path: file.path, code: EBADF)
        }
        return node
    }
}
