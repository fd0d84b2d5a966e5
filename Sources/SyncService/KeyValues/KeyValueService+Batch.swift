import HTTPTypes
import SyncCore
import SyncProtocol

extension KeyValueService {
    /// The response to `POST /v1/batch`.
    func batch(_ call: EntitlementService.Call) async throws -> ServiceResponse {
        guard call.fields.mediaType == BatchBody.mediaType else {
            return .refusal(.unsupportedMediaType, "a batch must be \(BatchBody.mediaType), see Docs/wire.proto")
        }
        let operations: [BatchOperation]
        do throws(BackendError) { operations = try BatchBody.operations(call.request.body) } catch {
            return .refusal(.badRequest, error.message)
        }
        let readCount = operations.count { $0.isRead }
        charge(readCount, operations.count - readCount)
        var run = BatchRun(operations, service: self)
        let results = try await run.run()
        var response = HTTPResponse(status: .ok)
        response.headerFields[.contentType] = BatchBody.mediaType
        return ServiceResponse(response, body: BatchBody.bytes(ofAnswer: results))
    }

    /// The problem of an operation that is refused without asking the store; `nil` if the operation is allowed.
    func verdict(_ operation: BatchOperation) -> Problem? {
        switch operation {
        case .read(let request): return scope.mayRead(request.key) ? nil : .outOfScope
        case .write(let request):
            guard scope.mayWrite(request.key) else { return .outOfScope }
            guard (request.value?.count ?? 0) > limits.valueByteCount else { return nil }
            return Problem(tooLarge(request.key))
        }
    }

    /// The error of a write whose value is longer than ``Limits/valueByteCount``.
    func tooLarge(_ key: EntryKey) -> BackendError {
        BackendError(.tooLarge, key: key, message: "a value must have at most \(limits.valueByteCount) bytes")
    }
}
