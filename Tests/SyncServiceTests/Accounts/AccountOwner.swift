import HTTPTypes
import ServiceTestSupport
import SyncProtocol
import SyncService

/// The owner of an account, who sends requests to a service as a client would.
struct AccountOwner {
    let service: EntitlementService
    let name: String
    let password: String

    init(_ service: EntitlementService, _ name: String = "alice", password: String = "correct horse") {
        (self.service, self.name, self.password) = (service, name, password)
    }

    func signUp(peer: String = "192.0.2.1") async -> Reply {
        await service.ask(.post, "/v1/accounts", json: ["name": name, "password": password], peer: peer)
    }

    func logIn(peer: String = "192.0.2.1") async -> Reply {
        await service.ask(
            .post, "/v1/sessions", json: ["grant_type": "password", "username": name, "password": password], peer: peer)
    }

    func changePassword(to new: String, token: String?) async -> Reply {
        await service.ask(
            .put, "/v1/accounts/self/password", token: token, json: ["password": password, "new_password": new])
    }

    func erase(token: String?) async -> Reply {
        await service.ask(.post, "/v1/accounts/self/erasure", token: token, json: ["password": password])
    }

    /// Approves the device that shows `code`.
    func approve(_ code: String?, token: String?) async -> Reply {
        await service.ask(
            .post, "/v1/devices/approvals", token: token,
            json: ["user_code": code ?? "", "approve": true, "password": password])
    }
}

extension EntitlementService {
    func refresh(_ token: String?) async -> Reply {
        await ask(.post, "/v1/sessions", json: ["grant_type": "refresh_token", "refresh_token": token ?? ""])
    }

    func redeem(_ device: String?) async -> Reply {
        await ask(
            .post, "/v1/sessions",
            json: ["grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device ?? ""])
    }

    func recover(_ name: String, _ code: String?, newPassword: String = "another horse") async -> Reply {
        await ask(
            .post, "/v1/sessions",
            json: [
                "grant_type": "urn:entitlementsync:recovery-code", "username": name, "recovery_code": code ?? "",
                "new_password": newPassword,
            ])
    }

    /// The status of the answer to a request for the account that `token` belongs to.
    func status(of token: String?) async -> Int { await ask(.get, "/v1/accounts/self", token: token).status }
}
