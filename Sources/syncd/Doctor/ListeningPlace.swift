import Foundation

/// The address and port at which a server listens.
struct ListeningPlace {
    let host: String
    let port: Int

    private var text: String { ServerOptions.authority(host, port) }

    /// The verdict on an attempt to bind the port. Nothing listens, so a server that starts meanwhile is not disturbed.
    var verdict: Verdict {
        guard port != 0 else { return .ok("any free port") }
        switch bindOnce() {
        case 0: return .ok("\(text) is free")
        case EADDRINUSE: return occupied
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

    private var occupied: Verdict {
        let processes = ProcessTable.listeners(onPort: port)
        guard !processes.isEmpty else {
            return .warning(
                "a process of another user listens on \(text)",
                remedy: "sudo ss -ltnp 'sport = :\(port)' shows it; if it is not syncd, end it")
        }
        if let process = processes.first(where: { ProcessTable.name(of: $0) == "syncd" }) {
            return .ok("syncd serve listens on \(text): process \(process)")
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
