import BenchmarkSupport
import RawCurl

/// libcurl's easy interface asking for one thing again and again: what a device is held against.
struct RawRequest {
    private let handle: OpaquePointer
    private let status: Int

    /// A request that is answered by `status`.
    init(_ url: String, token: String, tag: String? = nil, certificates: String?, status: Int) {
        guard let handle = raw_get_new(url, token, tag, certificates) else { exitWithFailure("libcurl does not start") }
        (self.handle, self.status) = (handle, status)
    }

    /// Asks; the length of the body.
    @discardableResult
    func perform() -> Int {
        var count = 0
        guard raw_get_perform(handle, &count) == status else { exitWithFailure("libcurl got no \(status)") }
        return count
    }

    /// Which HTTP it was: 11 or 20.
    var version: Int { Int(raw_get_version(handle)) }

    func free() { raw_get_free(handle) }
}
