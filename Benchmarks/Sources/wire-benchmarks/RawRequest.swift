import BenchmarkSupport
import RawCurl

/// The baseline of a device: libcurl's easy interface, which repeats one request.
struct RawRequest {
    private let handle: OpaquePointer
    private let status: Int

    /// Makes a request whose expected status is `status`.
    init(_ url: String, token: String, tag: String? = nil, certificates: String?, status: Int) {
        guard let handle = raw_get_new(url, token, tag, certificates) else {
            exitWithFailure("libcurl cannot create a handle")
        }
        (self.handle, self.status) = (handle, status)
    }

    /// Sends the request and returns the length of the body.
    @discardableResult
    func perform() -> Int {
        var count = 0
        guard raw_get_perform(handle, &count) == status else { exitWithFailure("libcurl got no \(status)") }
        return count
    }

    /// The HTTP version that was used: 11 or 20.
    var version: Int { Int(raw_get_version(handle)) }

    func free() { raw_get_free(handle) }
}
