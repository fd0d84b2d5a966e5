package import NIOCore

/// What one connection asks, one request after the other.
package protocol LoadWork: Sendable {
    /// The next request, and which of the plan's kinds it is.
    mutating func next() -> (bytes: ByteBuffer, kind: Int)

    /// Hears the answer to it.
    ///
    /// - Returns: whether its status was to be expected.
    mutating func isExpected(_ answer: AnswerHead) -> Bool

    /// The request may or may not have arrived: its answer was lost.
    mutating func loseAnswer()
}

/// The same requests in turn, whatever is answered.
package struct RepeatedRequests: LoadWork {
    private var requests: [RequestBytes]
    private let status: ClosedRange<Int>
    private let kind: Int
    private var place = 0

    /// - Parameters:
    ///   - requests: one or more.
    ///   - status: the answers that are to be expected.
    ///   - start: where in `requests` it begins.
    ///   - kind: of the plan's kinds.
    package init(_ requests: [RequestBytes], expecting status: ClosedRange<Int>, from start: Int = 0, kind: Int = 0) {
        precondition(!requests.isEmpty, "there is something to ask")
        (self.requests, self.status, self.kind) = (requests, status, kind)
        place = start % requests.count
    }

    package mutating func next() -> (bytes: ByteBuffer, kind: Int) {
        defer { place = (place + 1) % requests.count }
        return (requests[place].bytes(), kind)
    }

    package mutating func isExpected(_ answer: AnswerHead) -> Bool { status.contains(answer.status) }

    package mutating func loseAnswer() {}
}

/// Overwrites one key, each time on condition that it has the version of the answer before.
package struct ConditionalWrites: LoadWork {
    private let request: RequestBytes
    private var version: String
    private var body: [UInt8]
    private var number: UInt64 = 0
    private let kind: Int
    private var isUncertain = false

    /// - Parameters:
    ///   - request: the PUT, without condition and body.
    ///   - version: what the key holds now has this entity tag.
    ///   - byteCount: of the documents; each begins with a number, so that no two are alike.
    ///   - kind: of the plan's kinds.
    package init(_ request: RequestBytes, version: String, byteCount: Int, kind: Int = 0) {
        (self.request, self.version, self.kind) = (request, version, kind)
        body = [UInt8](repeating: UInt8(ascii: "x"), count: byteCount)
    }

    package mutating func next() -> (bytes: ByteBuffer, kind: Int) {
        number += 1
        var left = number
        for index in body.indices.prefix(16) {
            body[index] = UInt8(ascii: "0") + UInt8(left % 10)
            left /= 10
        }
        return (request.bytes(adding: ("If-Match", version), body: body), kind)
    }

    package mutating func isExpected(_ answer: AnswerHead) -> Bool {
        // Also with a conflict: it tells what there is now.
        if let tag = answer.field("etag") { version = tag }
        defer { if answer.status < 500 { isUncertain = false } }
        return answer.status == 204 || answer.status == 200 || (answer.status == 412 && isUncertain)
    }

    package mutating func loseAnswer() { isUncertain = true }
}

/// One of two kinds of work, the second in so many of a hundred requests, evenly spread.
package struct MixedWork: LoadWork {
    private var works: [any LoadWork]
    private let share: Int
    private var sum: Int
    private var current = 0

    /// - Parameters:
    ///   - first: most of it.
    ///   - second: `share` of a hundred.
    ///   - share: from 0 to 100.
    ///   - start: where in the turn it begins, so that not all connections do the same at once.
    package init(_ first: any LoadWork, _ second: any LoadWork, share: Int, from start: Int) {
        (works, self.share) = ([first, second], share)
        // 61 has no divisor in common with 100: neighbours begin far from each other.
        sum = start % 100 * 61 % 100
    }

    package mutating func next() -> (bytes: ByteBuffer, kind: Int) {
        sum += share
        current = sum >= 100 ? 1 : 0
        if current == 1 { sum -= 100 }
        return works[current].next()
    }

    package mutating func isExpected(_ answer: AnswerHead) -> Bool { works[current].isExpected(answer) }

    package mutating func loseAnswer() { works[current].loseAnswer() }
}
