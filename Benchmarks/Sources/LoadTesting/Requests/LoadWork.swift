package import NIOCore

/// The requests of one connection, one after the other.
package protocol LoadWork: Sendable {
    /// The next request, and the index of its kind in the plan.
    mutating func next() -> (bytes: ByteBuffer, kind: Int)

    /// Takes the head of the answer to the last request and returns whether it is an expected one.
    mutating func isExpected(_ answer: AnswerHead) -> Bool

    /// Notes that the last request has no answer: the server may or may not have carried it out.
    mutating func loseAnswer()
}

/// A fixed list of requests, repeated.
package struct RepeatedRequests: LoadWork {
    private var requests: [RequestBytes]
    private let status: ClosedRange<Int>
    private let kind: Int
    private var place = 0

    /// - Parameters:
    ///   - requests: one or more.
    ///   - status: the expected statuses.
    package init(_ requests: [RequestBytes], expecting status: ClosedRange<Int>, kind: Int = 0) {
        precondition(!requests.isEmpty, "requests must not be empty")
        (self.requests, self.status, self.kind) = (requests, status, kind)
    }

    package mutating func next() -> (bytes: ByteBuffer, kind: Int) {
        defer { place = (place + 1) % requests.count }
        return (requests[place].bytes(), kind)
    }

    package mutating func isExpected(_ answer: AnswerHead) -> Bool { status.contains(answer.status) }

    package mutating func loseAnswer() {}
}

/// Overwrites of one key, each conditional on the version in the answer before.
package struct ConditionalWrites: LoadWork {
    private let request: RequestBytes
    private var version: String
    private var body: [UInt8]
    private var number: UInt64 = 0
    private let kind: Int
    private var isUncertain = false

    /// - Parameters:
    ///   - request: the PUT, without condition and body.
    ///   - version: the entity tag of the current value.
    ///   - byteCount: the size of each value. A value begins with its number, so that no two are alike.
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
        // A 412 carries the current version, too.
        if let tag = answer.field("etag") { version = tag }
        defer { if answer.status < 500 { isUncertain = false } }
        return answer.status == 204 || answer.status == 200 || (answer.status == 412 && isUncertain)
    }

    package mutating func loseAnswer() { isUncertain = true }
}

/// Two kinds of work, interleaved evenly.
package struct MixedWork: LoadWork {
    private var works: [any LoadWork]
    private let share: Int
    private var sum: Int
    private var current = 0

    /// - Parameters:
    ///   - share: the percentage of requests that are of `second`, 0 to 100.
    ///   - start: a number that differs between connections, so that not all of them do the same at once.
    package init(_ first: any LoadWork, _ second: any LoadWork, share: Int, from start: Int) {
        (works, self.share) = ([first, second], share)
        // 61 and 100 are coprime: neighbours start far from each other.
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
