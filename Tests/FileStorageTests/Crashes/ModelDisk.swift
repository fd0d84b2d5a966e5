import SyncCoreTesting

/// A simulated disk and the visible state of its file system, which differ until the next sync.
///
/// It guarantees what POSIX does and no more. The bytes of a file are durable after `fsync` of the file, the names in a
/// folder after `fsync` of the folder. Before that, each name may exist or not independently of the others, and any
/// part of the bytes may be written.
struct ModelDisk: Sendable {
    struct Node: Sendable {
        var isFolder: Bool
        /// The visible bytes of a file.
        var content: [UInt8] = []
        /// The durable bytes of a file.
        var durableContent: [UInt8] = []
        /// The writes since the last sync.
        var writes: [(offset: Int, bytes: [UInt8])] = []
        /// The visible names in a folder, by the form in which they are compared.
        var names: [String: Name] = [:]
        /// The durable names in a folder.
        var durableNames: [String: Name] = [:]
        /// The targets of each changed name since the last sync, oldest first; `nil` if the name was removed.
        var changes: [String: [Name?]] = [:]
    }

    /// A name in a folder: its spelling and its node.
    struct Name: Hashable, Sendable {
        var spelling: String
        var node: Int
    }

    /// Small enough that even small files are torn in several places.
    private static let blockByteCount = 64

    /// The first node is the root folder.
    private(set) var nodes = [Node(isFolder: true)]

    subscript(node: Int) -> Node { nodes[node] }

    mutating func add(isFolder: Bool) -> Int {
        nodes.append(Node(isFolder: isFolder))
        return nodes.count - 1
    }

    /// Binds `name` in `folder` to another node, or removes it.
    mutating func bind(_ name: String, in folder: Int, to value: Name?) {
        nodes[folder].names[name] = value
        nodes[folder].changes[name, default: []].append(value)
    }

    mutating func write(_ bytes: [UInt8], to node: Int, at offset: Int) {
        nodes[node].content.overwrite(bytes, at: offset)
        nodes[node].writes.append((offset, bytes))
    }

    mutating func synchronize(_ node: Int) {
        nodes[node].durableContent = nodes[node].content
        nodes[node].writes = []
        nodes[node].durableNames = nodes[node].names
        nodes[node].changes = [:]
    }

    /// A random possible state after a power cut, in which everything is durable.
    func afterPowerCut(using generator: inout SeededGenerator) -> ModelDisk {
        var disk = self
        for index in nodes.indices {
            let node = nodes[index]
            var names = node.durableNames
            for name in node.changes.keys.sorted() {
                let possible = [node.durableNames[name]] + (node.changes[name] ?? [])
                names[name] = possible.randomElement(using: &generator) ?? nil
            }
            disk.nodes[index].names = names
            disk.nodes[index].content = Self.survivors(of: node, using: &generator)
            disk.synchronize(index)
        }
        return disk
    }

    private static func survivors(of node: Node, using generator: inout SeededGenerator) -> [UInt8] {
        var bytes = node.durableContent
        guard !node.writes.isEmpty else { return bytes }
        switch Int.random(in: 0..<4, using: &generator) {
        case 0:
            return bytes
        case 1:
            return node.content
        case 2:
            // Some of the writes, and the beginning of the next one.
            for write in node.writes.prefix(Int.random(in: 0...node.writes.count, using: &generator)).dropLast() {
                bytes.overwrite(write.bytes, at: write.offset)
            }
            if let last = node.writes.randomElement(using: &generator) {
                bytes.overwrite(
                    Array(last.bytes.prefix(Int.random(in: 0...last.bytes.count, using: &generator))), at: last.offset)
            }
            return bytes
        default:
            // The length is durable, and each block has the new bytes, the old ones or zeros.
            for start in stride(from: 0, to: node.content.count, by: blockByteCount) {
                let end = min(start + blockByteCount, node.content.count)
                let isTouched = node.writes.contains { $0.offset < end && $0.offset + $0.bytes.count > start }
                guard isTouched else { continue }
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: bytes.overwrite(Array(node.content[start..<end]), at: start)
                case 1: bytes.overwrite([UInt8](repeating: 0, count: end - start), at: start)
                default: bytes.overwrite([], at: end)
                }
            }
            return bytes
        }
    }
}

extension [UInt8] {
    /// Writes `bytes` at `offset`, and fills a gap before it with zeros.
    fileprivate mutating func overwrite(_ bytes: [UInt8], at offset: Int) {
        let end = offset + bytes.count
        if count < end { append(contentsOf: [UInt8](repeating: 0, count: end - count)) }
        replaceSubrange(offset..<end, with: bytes)
    }
}
