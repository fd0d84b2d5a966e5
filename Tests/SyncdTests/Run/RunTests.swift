import Foundation
import TestSupport
import Testing

@Suite("syncd run", .timeLimit(.minutes(15)))
struct RunTests {
    private let sandbox: Sandbox
    private static let programs = Sandbox.repository.appending(path: "Examples/local-programs")

    init() throws { sandbox = try Sandbox() }

    private var socket: String { sandbox.path("s/socket") }

    private var environment: [String: String] {
        ["XDG_STATE_HOME": sandbox.path("state"), "SYNCD_PASSWORD": "correct horse"]
    }

    /// Runs a command that must succeed.
    private func succeed(_ command: String) throws {
        let outcome = try sandbox.run(command, environment: environment)
        try #require(outcome.exitCode == 0, "\(command): \(outcome.error)")
    }

    /// Starts `syncd run` and waits until programs can connect.
    private func start(_ options: String = "") throws -> RunningCommand {
        let words = "run --local sqlite:phone.sqlite --socket \(socket) --poll 60 \(options)"
        let process = try sandbox.start(words.split(separator: " ").map(String.init), environment: environment)
        #expect(process.firstOutputLine() == "listening on \(socket)")
        return process
    }

    /// Runs one of the example programs.
    private func start(_ program: String, _ words: String) throws -> RunningCommand {
        try RunningCommand(
            program: Self.programs.appending(path: program),
            arguments: [socket] + words.split(separator: " ").map(String.init),
            environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"], folder: sandbox.folder.path)
    }

    private func ask(_ program: String, _ words: String) throws -> Sandbox.Outcome {
        try start(program, words).outcome()
    }

    @Test("A local program gates a feature, spends a unit once, and follows events", arguments: ["owls.py", "owls.sh"])
    func localPrograms(program: String) throws {
        let process = try start()
        #expect(try ask(program, "access random-owls").exitCode == 10)
        let follower = try start("owls.py", "events 1")
        #expect(follower.firstOutputLine() == "following")
        let recorded = try sandbox.run(
            "record purchase com.back40.InsomniOwl.3monthsOfRandom --local sqlite:phone.sqlite")
        #expect(recorded.exitCode == 0)
        #expect(follower.outcome() == .done("purchased"))
        #expect(try ask(program, "access random-owls").exitCode == 0)
        #expect(try ask("owls.py", "access nothing").error.contains("no entitlement \"nothing\""))
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
        #expect(try Set(FileManager.default.contentsOfDirectory(atPath: sandbox.folder.path)) == ["phone.sqlite", "s"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: sandbox.path("s")).isEmpty)
    }

    @Test("The events of the socket tell proxies neither to collect nor to compress them")
    func eventFields() throws {
        let process = try start()
        let client = try RunningCommand(
            program: URL(filePath: "/usr/bin/curl"),
            arguments: ["-sN", "--unix-socket", socket, "-D", "fields", "http://localhost/v1/events"], environment: [:],
            folder: sandbox.folder.path)
        #expect(client.firstOutputLine() == "retry: 1000")
        let fields = try String(contentsOfFile: sandbox.path("fields"), encoding: .utf8).lowercased()
        for field in [
            "content-type: text/event-stream", "cache-control: no-store, no-transform", "x-accel-buffering: no",
        ] { #expect(fields.contains(field + "\r\n"), "\(fields)") }
        client.send(SIGTERM)
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
    }

    @Test("A purchase on another device reaches a local program, and again after an outage of the server")
    func server() async throws {
        let store = "sqlite:\(sandbox.path("server.sqlite"))"
        let server = try ServerProcess(store: store, options: ["--catalog", Sandbox.example])
        let (url, port) = (server.url, server.port)
        try succeed("account create alice --local file:tablet --remote \(url)")
        try succeed("account login alice --local file:tablet --remote \(url)")
        try succeed("account login alice --local sqlite:phone.sqlite --remote \(url)")
        let process = try start("--remote \(url)")
        let follower = try start("owls.py", "events 1")
        #expect(follower.firstOutputLine() == "following")
        func buy(_ product: String) throws -> ContinuousClock.Instant {
            try succeed("record purchase \(product) --local file:tablet --remote \(url)")
            let begun = ContinuousClock.now
            try succeed("sync --local file:tablet --remote \(url)")
            return begun
        }
        let begun = try buy("com.back40.InsomniOwl.NightOwl")
        #expect(follower.outcome() == .done("restored"))
        // With the process that syncs the tablet.
        print("from the start of the other device's sync to the event: \(ContinuousClock.now - begun)")
        #expect(try ask("owls.py", "access night-owl").exitCode == 0)

        server.kill()
        let second = try start("owls.py", "events 1")
        #expect(second.firstOutputLine() == "following")
        let restarted = try ServerProcess(
            store: store, options: ["--catalog", Sandbox.example, "--listen", "127.0.0.1:\(port)"])
        let again = try buy("com.back40.InsomniOwl.CouchOwl")
        // The failure of a sync may be reported first.
        let types = second.outcome().output.split(separator: "\n").map(String.init)
        if types != ["restored"] { #expect(try ask("owls.py", "events 1").output == "restored\n") }
        print("after a restart of the server: \(ContinuousClock.now - again)")
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
        #expect(restarted.stop() == 0)
    }

    @Test("Units spent through the socket are not lost by kill -9, and each key spends one")
    func kills() throws {
        #expect(
            try sandbox.run("record purchase com.back40.InsomniOwl.RandomOwls --local sqlite:phone.sqlite").exitCode
                == 0)
        var acknowledged: Set<String> = []
        for round in 0..<Soak.killRounds {
            let process = try start()
            let key = "key\(round % 5)"
            let client = try start("owls.py", "use random-owls \(key)")
            process.kill(after: .milliseconds(20 * (round % 10)))
            #expect(process.outcome().exitCode == -SIGKILL)
            if client.outcome().exitCode == 0 { acknowledged.insert(key) }
        }
        let facts = try sandbox.run("facts --json --local sqlite:phone.sqlite").output
        #expect(acknowledged.allSatisfy(facts.contains))
        // A socket and a lock that were left behind do not matter.
        let process = try start()
        for number in 0..<5 { #expect(try ask("owls.py", "use random-owls key\(number)").exitCode == 0) }
        #expect(try ask("owls.sh", "use random-owls key0").output == "0\n")
        #expect(try ask("owls.py", "use random-owls key5").exitCode == 10)
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
    }

    @Test("The program of --on-event gets each event at least once, also those of a time without it")
    func program() throws {
        let log = sandbox.path("events.log")
        try sandbox.write("#!/bin/sh\ncat >> \(log)\nenv >> \(sandbox.path("env.log"))\n", to: "on-event")
        chmod(sandbox.path("on-event"), 0o700)
        let options = "--on-event \(sandbox.path("on-event"))"
        let first = try start(options)
        func record(_ name: String) throws {
            #expect(
                try sandbox.run("record purchase com.back40.InsomniOwl.\(name) --local sqlite:phone.sqlite").exitCode
                    == 0)
        }
        func waitForLine(with text: String) throws -> [String] {
            let end = ContinuousClock.now + Patience.limit
            while ContinuousClock.now < end {
                let lines = (try? String(contentsOfFile: log, encoding: .utf8))?.split(separator: "\n") ?? []
                if lines.contains(where: { $0.contains(text) }) { return lines.map(String.init) }
                sched_yield()
            }
            return []
        }
        try record("NightOwl")
        #expect(try waitForLine(with: "NightOwl").count == 1)
        first.send(SIGTERM)
        #expect(first.outcome().exitCode == 0)
        try record("CouchOwl")
        let second = try start(options)
        let lines = try waitForLine(with: "CouchOwl")
        #expect(lines.last?.hasPrefix("{\"number\": 2,\"type\": \"purchased\"") == true)
        // The first process may have ended before it knew that the program was done.
        #expect(lines.dropLast().allSatisfy { $0.hasPrefix("{\"number\": 1,\"type\": \"purchased\"") })
        second.send(SIGTERM)
        #expect(second.outcome().exitCode == 0)
        let variables = try String(contentsOfFile: sandbox.path("env.log"), encoding: .utf8).split(separator: "\n")
        // The shell adds some.
        let names = Set(variables.map { String($0.prefix { $0 != "=" }) })
        #expect(names.isSubset(of: ["PATH", "PWD", "OLDPWD", "SHLVL", "_"]), "\(names)")
    }

    @Test("SIGHUP reads the files again; a wrong one is reported and changes nothing")
    func reload() throws {
        let example = try String(contentsOfFile: Sandbox.example, encoding: .utf8)
        try sandbox.write(example, to: "catalog.json")
        let process = try start("--catalog catalog.json")
        #expect(try ask("owls.py", "access night-owl").exitCode == 10)
        try sandbox.write("{", to: "catalog.json")
        process.send(SIGHUP)
        #expect(process.firstErrorLine()?.contains("the files were not read again: ") == true)
        #expect(try ask("owls.py", "access night-owl").exitCode == 10)
        try sandbox.write(example.replacing("\"night-owl\"", with: "\"day-owl\""), to: "catalog.json")
        process.send(SIGHUP)
        #expect(process.firstOutputLine() == "listening on \(socket)")
        #expect(try ask("owls.py", "access day-owl").exitCode == 10)
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
    }

    @Test("A second process, a foreign or open folder, a wrong path and a wrong program are refused")
    func refusals() throws {
        let process = try start()
        let second = try sandbox.run("run --local sqlite:phone.sqlite")
        #expect(second.exitCode == 75)
        #expect(second.error.contains("another syncd run is using this store (process "))
        let other = try sandbox.run(["run", "--local", "sqlite:other.sqlite", "--socket", socket])
        #expect(other.exitCode == 75)
        #expect(other.error.contains("another program listens on \(socket)"))
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)

        try FileManager.default.createDirectory(
            atPath: sandbox.path("open"), withIntermediateDirectories: false, attributes: [.posixPermissions: 0o755])
        chmod(sandbox.path("open"), 0o755)
        try sandbox.write("text", to: "program")
        chmod(sandbox.path("program"), 0o600)
        try sandbox.write("#!/bin/sh\n", to: "shared")
        chmod(sandbox.path("shared"), 0o777)
        try FileManager.default.createDirectory(
            atPath: sandbox.path("writable"), withIntermediateDirectories: false)
        chmod(sandbox.path("writable"), 0o777)
        try sandbox.write("#!/bin/sh\n", to: "writable/own")
        chmod(sandbox.path("writable/own"), 0o700)
        for (options, reason) in [
            ("--socket \(sandbox.path("open/socket"))", "other users may enter this folder (mode 755); chmod 700"),
            ("--socket relative", "the socket needs an absolute path"),
            ("--socket /\(String(repeating: "a", count: 200))", "must have at most 107 bytes, not 201"),
            ("--socket-group nobody", "need --socket"),
            ("--socket \(socket) --socket-group no-such-group", "this machine has no group \"no-such-group\""),
            ("--on-event program", "the program needs an absolute path"),
            ("--on-event \(sandbox.path("program"))", "is not a program that may be run"),
            ("--on-event \(sandbox.path("shared"))", "others may change this program"),
            ("--on-event \(sandbox.path("writable/own"))", "others may replace this program"),
            ("--on-event-seconds 0", "--on-event-seconds must be a number of seconds from 1 to 3600"),
            ("--poll 0", "--poll must be a number of seconds from 1 to 86400"),
            ("--expiring-within P1M", "--expiring-within must be a duration of days or hours"),
            ("--remote sqlite:phone.sqlite", "is the local store"),
            ("--account alice --all-accounts", "exclude each other"),
            ("--remote https://127.0.0.1:1 --all-accounts", "--all-accounts does not apply to a server"),
        ] {
            let outcome = try sandbox.run("run --local sqlite:phone.sqlite \(options)")
            #expect(outcome.exitCode == 2, "\(options)")
            #expect(outcome.error.contains(reason), "\(options): \(outcome.error)")
        }
        let memory = try sandbox.run("run --local memory:")
        #expect(memory.exitCode == 2)
        #expect(memory.error.contains("--local must be a store that lasts"))
    }
}
