#if PostgreSQL
import SyncCore

/// Commits concurrent writes in one transaction, and returns each outcome after the commit.
///
/// The rows are written in the order of their keys, so that two transactions never wait for each other. A write that
/// fails, or waits long for a row, undoes its transaction; the others are then committed without it, and it is repeated
/// in a transaction of its own.
struct GroupCommit {
    typealias Answer = Result<WriteOutcome, BackendError>

    /// The longest time that a transaction of several writes waits for a row.
    static let sharedLockMilliseconds: Int64 = 200
    /// The number of times that the others are committed together after one of them has failed.
    private static let maximumRegroupings = 3
    /// The number of times that a write is repeated because other transactions change the entry in between.
    private static let maximumRepetitions = 100

    private let session: Session
    /// The writes of all groups, one group after another.
    private let writes: [PreparedWrite]
    /// The positions in ``writes`` of the groups that have not been answered.
    private var groups: [(index: Int, range: Range<Int>)] = []
    private var answers: [Answer?]
    private let begin = ContinuousClock().now

    private init(_ groups: [[PreparedWrite]], on session: Session) {
        self.session = session
        writes = groups.flatMap(\.self)
        answers = writes.map { _ in nil }
        var start = 0
        for (index, group) in groups.enumerated() {
            self.groups.append((index, start..<start + group.count))
            start += group.count
        }
    }

    /// Performs groups of writes in one transaction, and answers each group as soon as its outcome is known.
    static func perform(
        _ groups: [[PreparedWrite]], on session: Session,
        answer: (_ index: Int, _ answer: Result<[Answer], BackendError>) -> Void
    ) {
        var commit = GroupCommit(groups, on: session)
        commit.run(answer)
    }

    private var defects: Defects { session.configuration.defects }

    /// Answers the groups whose outcome is known.
    private mutating func report(_ answer: (Int, Result<[Answer], BackendError>) -> Void) {
        groups.removeAll { index, range in
            let known = answers[range].compactMap(\.self)
            guard known.count == range.count else { return false }
            answer(index, .success(known))
            return true
        }
    }

    private mutating func run(_ answer: (Int, Result<[Answer], BackendError>) -> Void) {
        var open = Array(writes.indices)
        if !defects.contains(.writesUnsorted) {
            open.sort { writes[$0].key == writes[$1].key ? $0 < $1 : writes[$0].key < writes[$1].key }
        }
        var alone: [Int] = []
        var attempts = 0
        while open.count > 1, attempts <= Self.maximumRegroupings {
            attempts += 1
            guard let failed = performTogether(&open, repeating: &alone) else { break }
            alone.append(failed)
            open.removeAll { $0 == failed }
        }
        report(answer)
        // Those in `alone` may wait for their rows, so they come last.
        for number in open + alone {
            performAlone(number)
            report(answer)
        }
    }

    /// Commits the writes in `open`, and removes those with an answer. Those that must be repeated move to `alone`.
    ///
    /// - Returns: The write that undid the transaction; `nil` if there is none.
    private mutating func performTogether(_ open: inout [Int], repeating alone: inout [Int]) -> Int? {
        let parts = open.map { writes[$0].statements(defects) }
        switch reply(to: parts.flatMap(\.self)) {
        case .success(let rows):
            var position = 0
            for (number, part) in zip(open, parts) {
                let outcome = writes[number].outcome(rows[position..<position + part.count], defects)
                if let outcome { answers[number] = .success(outcome) } else { alone.append(number) }
                position += part.count
            }
            open = []
            return nil
        case .failure(.transaction(let failure)) where !failure.isLost:
            guard let statement = failure.statement else { return nil }
            var end = 0
            return zip(open, parts).first { _, part in
                end += part.count
                return statement < end
            }?.0
        case .failure(let failure):
            for number in open { answers[number] = .failure(failure.error(of: writes[number], session.label)) }
            open = []
            return nil
        }
    }

    /// Performs one write in a transaction of its own, which waits longer for a row. All such waits of a turn together
    /// are limited, because other writes wait for the connection.
    private mutating func performAlone(_ number: Int) {
        let write = writes[number]
        for repetition in 0..<Self.maximumRepetitions {
            let spent = begin.duration(to: ContinuousClock().now)
            let wait = max(.milliseconds(Self.sharedLockMilliseconds), session.configuration.busyTimeout - spent)
            let limit = Statement(.waitLonger, .integer(Int64(wait.pollMilliseconds)))
            switch reply(to: [limit] + write.statements(defects)) {
            case .success(let rows):
                if let outcome = write.outcome(rows.dropFirst(), defects) { return answers[number] = .success(outcome) }
            case .failure(.transaction(let failure)) where failure.isReadOnly && repetition == 0:
                // The connection was closed. The next one leads to the new primary.
                continue
            case .failure(let failure):
                return answers[number] = .failure(failure.error(of: write, session.label))
            }
        }
        answers[number] = .failure(error("other clients change the entry all the time; try again", of: write))
    }

    private enum Failure: Error {
        /// Nothing was sent.
        case unconnected(BackendError)
        case transaction(TransactionFailure)
        /// The transaction was committed on a server without a standby.
        case withoutReplica

        func error(of write: PreparedWrite, _ label: String) -> BackendError {
            switch self {
            case .unconnected(let error): error.during(write.operation, key: write.key)
            case .transaction(let failure):
                BackendError(failure, label: label, isWrite: true).during(write.operation, key: write.key)
            case .withoutReplica:
                BackendError(withoutReplica: label, isUnknown: true).during(write.operation, key: write.key)
            }
        }
    }

    /// Performs one transaction.
    private func reply(to statements: [Statement]) -> Result<[Rows], Failure> {
        let needsReplica = session.configuration.requiresReplica
        let transaction = statements + (needsReplica ? [Statement(.standbys)] : [])
        let replies: [Reply]
        do throws(BackendError) {
            // The setting is read again after the commit: if it is reset, the server releases the commits that wait for
            // a standby as if there were one.
            replies = try session.perform([transaction] + (needsReplica ? [[Statement(.standbys)]] : []))
        } catch {
            return .failure(.unconnected(error))
        }
        switch replies.first {
        case .success(var rows):
            guard needsReplica else { return .success(rows) }
            guard rows.popLast()?.text(0, 0).isEmpty == false, case .success(let after) = replies.last,
                after.first?.text(0, 0).isEmpty == false
            else { return .failure(.withoutReplica) }
            return .success(rows)
        case .failure(let failure):
            if defects.contains(.acknowledgesBeforeCommit), failure.provisional.count == transaction.count {
                return .success(failure.provisional)
            }
            return .failure(.transaction(failure))
        case nil:
            return .failure(.transaction(TransactionFailure(message: "no reply", isLost: true)))
        }
    }

    private func error(_ message: String, of write: PreparedWrite) -> BackendError {
        BackendError(.busy, operation: write.operation, key: write.key, message: "\(session.label): \(message)")
    }
}
#endif
