import SyncCoreTesting

/// What is on a disk and what the system shows of it: the two differ until somebody synchronises.
///
/// This is what POSIX promises and no more. A file's bytes are on the disk after `fsync` of the file, a folder's names
/// after `fsync` of the folder. Before that each may be there or not, one without the other, and of bytes any part.
struct ModelDisk: Sendable {
    struct Node: Sendable {
        var isFolder: Bool
        /// A file's bytes as they are read.
        var content: [UInt8] = []
        /// A file's bytes as the disk has them for sure.
        var durableContent: [UInt8] = []
        /// What was written since.
        var writes: [(offset: Int, bytes: [UInt8])] = []
        /// A folder's names as they are seen, under the form in which they are told apart.
        var names: [String: Name] = [:]
        /// A folder's names as the disk has them for sure.
        var durableNames: [String: Name] = [:]
        /// What each changed name stood for since, oldest first; `nil` for nothing.
        var changes: [String: [Name?]] = [:]
    }

    /// A name in a folder: as it is spelled, and the node that it stands for.
    struct Name: Hashable, Sendable {
        var spelling: String
        var node: Int
    }

    /// Small, so that small files are torn in several places.
    private static let blockByteCount = 64

    /// The root folder is the first.
    private(set) var nodes = [Node(isFolder: true)]

    subscript(node: Int) -> Node { nodes[node] }

    mutating func add(isFolder: Bool) -> Int {
        nodes.append(Node(isFolder: isFolder))
        return nodes.count - 1
    }

    /// Gives `name` in `folder` another meaning, or none.
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

    /// What is found after the power was cut: one of all the possibilities, and all of it on the disk.
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
            // Some writes, and the beginning of the next.
            for write in node.writes.prefix(Int.random(in: 0...node.writes.count, using: &generator)).dropLast() {
                bytes.overwrite(write.bytes, at: write.offset)
            }
            if let last = node.writes.randomElement(using: &generator) {
                bytes.overwrite(
                    Array(last.bytes.prefix(Int.random(in: 0...last.bytes.count, using: &generator))), at: last.offset)
            }
            return bytes
        default:
            // The length is there, and of each block the new bytes, the old ones or zeros.
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
    /// Puts `bytes` at `offset`, with zeros in between when the array ends before.
    fileprivate mutating func overwrite(_ bytes: [UInt8], at offset: Int) {
        let end = offset + bytes.count
        if count < end { append(contentsOf: [UInt8](repeating: 0, count: end - count)) }
        replaceSubrange(offset..<end, with: bytes)
    }
}
