import HTTPTypes
public import SyncCore
import SyncProtocol

extension AccountClient {
    /// A device that waits to be approved (RFC 8628).
    public struct DeviceCode: Hashable, Sendable {
        /// What the device proves itself with. A secret.
        public var deviceCode: String
        /// What its owner types where he is logged in: `BCDF-GHJK`.
        public var userCode: String
        /// Where he types it.
        public var page: String
        /// The same with the code in it, for a picture that a phone reads.
        public var pageWithCode: String?
        /// How long the code lives.
        public var lifetime: Duration
        /// How long to wait between two questions.
        public var interval: Duration
    }

    private struct DeviceBody: Decodable {
        var deviceCode: String
        var userCode: String
        var verificationUri: String
        var verificationUriComplete: String?
        var expiresIn: Int64
        var interval: Int64?
    }

    /// Lets this device wait for its owner, who approves it where he is logged in: a log-in without a keyboard.
    ///
    /// - Throws: ``AccountError`` of kind `unreachable` or `server`.
    public func beginDeviceLogIn() async throws(AccountError) -> DeviceCode {
        let body: DeviceBody = try await answer(.post, "/v1/devices", [:])
        return DeviceCode(
            deviceCode: body.deviceCode, userCode: body.userCode, page: body.verificationUri,
            pageWithCode: body.verificationUriComplete,
            lifetime: .seconds(min(max(body.expiresIn, 1), 86_400)),
            interval: .seconds(min(max(body.interval ?? 5, 1), 3_600)))
    }

    /// Asks until somebody has approved the device, or refused it, or nobody has in time.
    ///
    /// Asks as often as the server allows and no more; where the server is out of reach it goes on after longer pauses.
    ///
    /// - Parameters:
    ///   - code: what ``beginDeviceLogIn()`` answered.
    ///   - host: the timer.
    /// - Throws: ``AccountError`` of kind `deviceRefused`, `codeExpired`, `cancelled` or `server`.
    public func waitForApproval(
        of code: DeviceCode, host: HostServices = .system
    ) async throws(AccountError) -> ServerSession {
        let stopwatch = Stopwatch(host.timer)
        var interval = code.interval
        while true {
            guard stopwatch.elapsed + interval < code.lifetime else {
                throw AccountError(.codeExpired, "nobody approved this device in time; begin again")
            }
            do { try await host.sleep(for: interval) } catch {
                throw AccountError(.cancelled, "the task was cancelled")
            }
            switch try await poll(code) {
            case .session(let session): return session
            case .pending: break
            // RFC 8628, section 3.5: from now on five seconds longer, or twice as long when the server is away.
            case .slowDown: interval += .seconds(5)
            case .away(let pause): interval = max(min(interval * 2, .seconds(60)), pause ?? .zero)
            }
        }
    }

    private enum Poll {
        case session(ServerSession)
        case pending
        case slowDown
        case away(Duration?)
    }

    private func poll(_ code: DeviceCode) async throws(AccountError) -> Poll {
        do throws(AccountError) {
            return .session(
                try await session(
                    [
                        "grant_type": .text("urn:ietf:params:oauth:grant-type:device_code"),
                        "device_code": .text(code.deviceCode),
                    ], invalidGrant: .codeExpired))
        } catch {
            if error.name == "authorization_pending" { return .pending }
            if error.name == "slow_down" { return .slowDown }
            guard error.isTransient else { throw error }
            return .away(error.retryAfter)
        }
    }

    /// Says yes or no to the device that shows `userCode`, in the name of the account.
    ///
    /// - Parameters:
    ///   - userCode: as it was typed; capitals and hyphens do not matter.
    ///   - isApproved: whether the device may be logged in.
    ///   - password: the account's, to let a device in; `nil` to refuse it, and for an account of another issuer, whose
    ///     token must be at most five minutes old instead.
    ///   - token: an access token of the account.
    /// - Throws: ``AccountError`` of kind `unknown` (no device waits with this code), `invalidCredentials`, `invalid`
    ///   (a password is needed), `tooManyGuesses`, `notAllowed`, `sessionOver`, `unreachable` or `server`.
    public func decide(
        device userCode: String, isApproved: Bool, password: String? = nil, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) {
        var members: [String: Member] = ["user_code": .text(userCode), "approve": .flag(isApproved)]
        if let password { members["password"] = .text(password) }
        _ = try await exchange(.post, "/v1/devices/approvals", members, token: token)
    }
}

/// Measures time by a timer, which no clock that a person sets disturbs.
struct Stopwatch: Sendable {
    private let read: @Sendable () -> Duration

    /// Runs from now on.
    init(_ timer: any Clock<Duration>) { read = Self.reading(timer) }

    /// How long it has been running.
    var elapsed: Duration { read() }

    private static func reading(_ timer: some Clock<Duration>) -> @Sendable () -> Duration {
        let start = timer.now
        return { start.duration(to: timer.now) }
    }
}
