import HTTPTypes
import SyncCore
import SyncProtocol

extension KeyValueService {
    /// The answer to several operations at once, each on its own.
    func batch(_ body: [UInt8], _ fields: HTTPFields) async throws(BackendError) -> TransportAnswer {
        guard fields[.contentType]?.prefix(while: { $0 != ";" }).lowercased() == BatchBody.mediaType else {
            return .refusal(.unsupportedMediaType, "a batch is \(BatchBody.mediaType), see Docs/wire.proto")
        }
        let operations: [BatchOperation]
        do throws(BackendError) { operations = try BatchBody.operations(body) } catch {
            return .refusal(.badRequest, error.message)
        }
        guard operations.count <= BatchBody.maximumOperationCount else {
            return .refusal(.badRequest, "a batch has at most \(BatchBody.maximumOperationCount) operations")
        }
        var results: [BatchResult] = []
        results.reserveCapacity(operations.count)
        // Neighbours of one sort go to the store together, one look, one commit, as many as may be held at once.
        var index = 0
        var room = limits.batchByteCount
        while index < operations.count {
            var reads: [ReadRequest] = []
            var writes: [WriteRequest] = []
            while index < operations.count {
                if case .read(let request) = operations[index], writes.isEmpty, reads.count < Self.readCount {
                    reads.append(request)
                } else if case .write(let request) = operations[index], reads.isEmpty, writes.count < Self.writeCount {
                    writes.append(request)
                } else {
                    break
                }
                index += 1
            }
            let new = reads.isEmpty ? try await write(writes) : try await read(reads)
            room -= new.reduce(0) { $0 + $1.byteCount }
            results += new
            guard room > 0 || index == operations.count else {
                results += operations[index...].map { _ in .problem(.postponed) }
                break
            }
        }
        var response = HTTPResponse(status: .ok)
        response.headerFields[.contentType] = BatchBody.mediaType
        return TransportAnswer(response, body: BatchBody.bytes(ofAnswer: results))
    }

    /// So many entries are read at once, and so many writes, each of which may meet another entry.
    private static let (readCount, writeCount) = (16, 32)

    private func read(_ requests: [ReadRequest]) async throws(BackendError) -> [BatchResult] {
        let verdicts = requests.map { scope.mayRead($0.key) ? nil : Problem.notYours }
        let allowed = requests.filter { scope.mayRead($0.key) }
        let results = allowed.isEmpty ? [] : try await store.read(allowed).outcome
        return merge(verdicts, results.map { $0.map(BatchResult.read) })
    }

    private func write(_ requests: [WriteRequest]) async throws(BackendError) -> [BatchResult] {
        let verdicts = requests.map { verdict($0) }
        let allowed = zip(requests, verdicts).filter { $0.1 == nil }.map(\.0)
        let results = allowed.isEmpty ? [] : try await store.write(allowed).outcome
        return merge(verdicts, results.map { $0.map(BatchResult.write) })
    }

    /// Why a write is not even tried.
    private func verdict(_ request: WriteRequest) -> Problem? {
        guard scope.mayWrite(request.key) else { return .notYours }
        guard (request.value?.count ?? 0) <= limits.valueByteCount else {
            return Problem(
                BackendError(
                    .tooLarge, key: request.key, message: "a value has at most \(limits.valueByteCount) bytes here"))
        }
        return nil
    }

    /// The results in the order of the requests: a problem where there is one, else what the store answered next.
    private func merge(_ verdicts: [Problem?], _ results: [Result<BatchResult, BackendError>]) -> [BatchResult] {
        var answered = results[...]
        return verdicts.map { verdict in
            if let verdict { return .problem(verdict) }
            switch answered.popFirst() {
            case .success(let result): return result
            case .failure(let error): return .problem(problem(error))
            case nil: return .problem(Problem(.internalServerError, "the store answered half of a batch"))
            }
        }
    }
}

extension BatchResult {
    /// What it adds to an answer.
    fileprivate var byteCount: Int {
        switch self {
        case .read(.found(let entry)), .write(.conflict(let entry?)): entry.value.count
        default: 0
        }
    }
}
