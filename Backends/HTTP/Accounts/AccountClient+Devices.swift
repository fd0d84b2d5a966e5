import HTTPTypes
public import SyncCore
import SyncProtocol

extension AccountClient {
    /// A device that waits to be approved (RFC 8628).
    public struct DeviceCode: Hashable, Sendable {
        /// The secret by which the device identifies itself.
        public var deviceCode: String
        /// The code that the owner enters on a device that is logged in, such as `BCDF-GHJK`.
        public var userCode: String
        /// The page on which to enter the code.
        public var page: String
        /// The page with the code in its address, for a QR code.
        public var pageWithCode: String?
        /// The lifetime of the code.
        public var lifetime: Duration
        /// The minimum time between two polls.
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

    /// Starts a log-in without a keyboard, which the owner approves on a device that is logged in.
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

    /// Polls until the device is approved or denied, or its code expires.
    ///
    /// Polls at the rate that the server allows, and with longer pauses while the server is unreachable.
    ///
    /// - Parameters:
    ///   - code: the result of ``beginDeviceLogIn()``.
    ///   - host: the timer.
    /// - Throws: ``AccountError`` of kind `deviceRefused`, `codeExpired`, `cancelled` or `server`.
    public func waitForApproval(
        of code: DeviceCode, host: HostServices = .system
    ) async throws(AccountError) -> ServerSession {
        let elapsed = host.stopwatch()
        var interval = code.interval
        while true {
            guard elapsed() + interval < code.lifetime else {
                throw AccountError(.codeExpired, "the code expired before the device was approved; start again")
            }
            do { try await host.sleep(for: interval) } catch {
                throw AccountError(.cancelled, "the task was cancelled")
            }
            switch try await poll(code) {
            case .session(let session): return session
            case .pending: break
            // RFC 8628, section 3.5: five seconds longer from now on, or twice as long if the server is unreachable.
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

    /// Approves or denies the log-in of the device that shows `userCode`.
    ///
    /// - Parameters:
    ///   - userCode: the code as entered. Case and hyphens are ignored.
    ///   - isApproved: true to log the device in.
    ///   - password: the password of the account, which an approval requires; `nil` for a denial, and for an account of
    ///     another issuer, whose token must be at most five minutes old instead.
    ///   - token: an access token of the account.
    /// - Throws: ``AccountError`` of kind `unknown` (no device waits for this code), `invalidCredentials`, `invalid`
    ///   (a password is needed), `tooManyGuesses`, `notAllowed`, `sessionOver`, `unreachable` or `server`.
    public func decide(
        device userCode: String, isApproved: Bool, password: String? = nil, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) {
        var members: [String: Member] = ["user_code": .text(userCode), "approve": .flag(isApproved)]
        if let password { members["password"] = .text(password) }
        _ = try await exchange(.post, "/v1/devices/approvals", members, token: token)
    }
}
