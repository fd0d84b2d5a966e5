package import NIOCore

/// An incremental reader of an event stream (HTML, section 9.2.6) that interprets only what a load generator needs.
package struct EventReader: Sendable {
    /// Longer lines are neither `event: change` nor a valid `retry`.
    private static let lineLimit = 64

    private var line: [UInt8] = []
    /// The last reconnection time that the server sent.
    package private(set) var reconnectionTime: TimeAmount?

    package init() {}

    /// Reads on and returns the number of events of type `change` that begin in `piece`.
    package mutating func read(_ piece: ByteBuffer) -> Int {
        var count = 0
        for byte in piece.readableBytesView {
            guard byte == UInt8(ascii: "\n") else {
                if line.count <= Self.lineLimit { line.append(byte) }
                continue
            }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if let value = value(of: "event"), value.elementsEqual("change".utf8) { count += 1 }
            if let value = value(of: "retry") { readReconnectionTime(value) }
            line.removeAll(keepingCapacity: true)
        }
        return count
    }

    private func value(of field: StaticString) -> ArraySlice<UInt8>? {
        let count = field.utf8CodeUnitCount
        guard line.count > count, line.count <= Self.lineLimit, line[count] == UInt8(ascii: ":"),
            line[..<count].elementsEqual(UnsafeBufferPointer(start: field.utf8Start, count: count))
        else { return nil }
        let value = line[(count + 1)...]
        return value.first == UInt8(ascii: " ") ? value.dropFirst() : value
    }

    private mutating func readReconnectionTime(_ value: ArraySlice<UInt8>) {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        guard value.allSatisfy(digits.contains), let milliseconds = Int64(String(decoding: value, as: UTF8.self)) else {
            return
        }
        reconnectionTime = .milliseconds(min(milliseconds, 3_600_000))
    }
}
