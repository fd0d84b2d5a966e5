import CurlTransport
import Foundation
import HTTPTypes
import SyncProtocol

/// The address and port at which a server listens.
struct ListeningAddress {
    let host: String
    let port: Int
    /// `true` if the server is to use TLS.
    let isEncrypted: Bool
    /// The path of the server's database; `nil` for another kind of store.
    let store: String?

    private var text: String { ServerOptions.authority(host, port) }

    /// The verdict for a user without the right to listen on every port; `nil` if the port needs no right.
    func privilege(of user: ServiceUser) -> Verdict? {
        let text = try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding: .utf8)
        let first = text.flatMap { Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) } ?? 1_024
        guard port != 0, port < first else { return nil }
        return .failed(
            "\(user.description) may not listen on port \(port)",
            remedy: "choose a port from \(first), or set with systemctl edit syncd: "
                + "AmbientCapabilities=CAP_NET_BIND_SERVICE, CapabilityBoundingSet=CAP_NET_BIND_SERVICE, "
                + "PrivateUsers=no")
    }

    /// The verdict on an attempt to bind the port. Nothing listens, so a server that starts meanwhile is not disturbed.
    func verdict() async -> Verdict {
        guard port != 0 else { return .ok("any free port") }
        switch bindOnce() {
        case 0: return .ok("\(text) is free")
        case EADDRINUSE: return await occupied()
        case EADDRNOTAVAIL:
            return .failed("\(host) is no address of this machine", remedy: "correct --listen: ip address shows them")
        case EACCES, EPERM:
            return .failed(
                "user \(userName(geteuid())) may not listen on port \(port)",
                remedy: "choose a port from 1024, or grant CAP_NET_BIND_SERVICE to the service")
        case let code?:
            return .failed("\(text): \(String(cString: strerror(code)))", remedy: "correct --listen")
        case nil: return .failed("the host \(host) is unknown", remedy: "correct --listen")
        }
    }

    /// The verdict on the program that has the port, which is asked.
    private func occupied() async -> Verdict {
        let processes = ProcessTable.listeners(onPort: port)
        let own = processes.first { ProcessTable.name(of: $0) == "syncd" }
        // A proxy or a tunnel to another syncd would answer as one.
        guard processes.isEmpty || own != nil else { return foreign(processes) }
        let log = "see its log: journalctl -u syncd"
        do throws(TransportError) {
            let server = try listener()
            guard try await server.get("/healthz").isOurs else { return foreign(processes) }
            let release = ReleaseNumber(description: try await server.get("/openapi.yaml").body)
            let name = "syncd" + (release.map { " \($0.text)" } ?? "") + (own.map { ", process \($0)," } ?? "")
            if let own, let store, ProcessTable.process(own, hasOpen: store) == false {
                return .failed(
                    "\(name) is already listening at \(text) with another store",
                    remedy: "choose another --listen, or another --store")
            }
            let isReady = try await server.get("/readyz").response.status == .ok
            let isCompared = own != nil && store != nil
            return isReady
                ? .ok(
                    "\(name) is already listening at \(text) and is ready"
                        + (isCompared ? "" : " (its store was not compared)"))
                : .failed("\(name) is already listening at \(text), but is not ready", remedy: log)
        } catch {
            if processes.isEmpty, error.kind == .unreachable {
                // For a minute, connections of a program that has ended can keep its port.
                return .warning(
                    "\(text) is taken, but no program accepts connections there",
                    remedy: "wait a minute, or see: sudo ss -tanp 'sport = :\(port)'")
            }
            guard let own else { return foreign(processes) }
            return .failed(
                "syncd, process \(own), is listening at \(text), but does not answer: \(error.message)", remedy: log)
        }
    }

    /// A connection to the program that has the port. Only public resources are read, so its certificate, which is for
    /// the public name, is not verified.
    private func listener() throws(TransportError) -> RemoteHost {
        var configuration = CurlClient.Configuration()
        (configuration.verifiesServer, configuration.proxy) = (false, .none)
        let reachable = ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host
        let address = (isEncrypted ? "https://" : "http://") + ServerOptions.authority(reachable, port)
        guard let server = RemoteHost(address, transport: try CurlClient(configuration)) else {
            throw TransportError(.unreachable, mayHaveArrived: false, message: "\(address) is no URL")
        }
        return server
    }

    private func foreign(_ processes: [Int32]) -> Verdict {
        guard !processes.isEmpty else {
            return .failed(
                "a program that is not syncd listens at \(text), so syncd serve cannot start",
                remedy: "choose another --listen, or end it: sudo ss -ltnp 'sport = :\(port)' shows it")
        }
        // Of several processes, each at an address of its own, it is unknown which one is in the way.
        let names = processes.map(ProcessTable.description).joined(separator: ", ")
        return .failed(
            "\(names): listening on port \(port), so syncd serve cannot start at \(text)",
            remedy: processes.count == 1
                ? "end it: kill \(processes[0]), or choose another --listen"
                : "end the one at \(text), or choose another --listen")
    }

    /// Binds the address and releases it. Returns the system's error number, or 0; `nil` for an unknown host.
    private func bindOnce() -> Int32? {
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE
        #if os(Linux)
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #else
        hints.ai_socktype = SOCK_STREAM
        #endif
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0, let entry = list else { return nil }
        defer { freeaddrinfo(list) }
        let address = entry.pointee
        let descriptor = Foundation.socket(address.ai_family, address.ai_socktype, address.ai_protocol)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        return bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno
    }
}
