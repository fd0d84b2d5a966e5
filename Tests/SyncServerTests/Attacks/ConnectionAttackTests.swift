import Foundation
import TestSupport
import Testing

extension Attacks {
    @Suite("Attacks through connections", .serialized)
    struct ConnectionAttackTests {
        @Test("5,000 connections that trickle an incomplete header are closed after the header timeout")
        func halfOpen() async throws {
            let stage = try AttackStage(["header-seconds=6"])
            let count = 5_000
            // All are closed at once. In a debug build on a slow machine that takes a second or two.
            _ = try await stage.measure(
                "\(count) half-open connections", seconds: 20, growth: 200 << 20, share: 0.6, least: count
            ) { _ in
                let connections = try (0..<count).map { _ in try RawConnection(port: stage.server.port) }
                for connection in connections { connection.send("GET /v1/kv HTTP/1.1\r\nHost: x\r\nX-") }
                // The timeout counts from the start of the header, not from its last byte.
                for connection in connections { connection.send("x") }
                #expect(connections.allSatisfy { $0.receiveAll() != nil })
                return connections.count
            }
            #expect(try stage.figure(#"http_server_refusals_total{reason="slow"}"#) >= Double(count))
            #expect(stage.server.stop() == 0)
        }

        @Test("Endless bodies are refused: at once from strangers, at the body limit from an account")
        func endless() async throws {
            let stage = try AttackStage(["total-body-bytes=64M"])
            let alice = try AttackStage.signUp("alice", stage.server)
            let piece = Array(("10000\r\n" + String(repeating: "x", count: 65_536) + "\r\n").utf8)
            _ = try await stage.measure("endless bodies", growth: 160 << 20, least: 8) { isWanted in
                var number = 0
                while isWanted(number) {
                    let isKnown = number % 4 == 3
                    let connection = try RawConnection(port: stage.server.port)
                    let fields = (isKnown ? alice.fields : []) + ["Transfer-Encoding: chunked"]
                    connection.send(request("PUT", "/v1/kv/\(alice.prefix)x?if=any", fields: fields))
                    for _ in 0..<300 { connection.send(piece) }
                    let status = connection.answer()?.status
                    // A client that keeps sending may lose the answer to a connection reset.
                    #expect(status == nil || status == (isKnown ? 413 : 401), "\(status as Any)")
                    number += 1
                }
                return number
            }
            #expect(try stage.figure(#"http_server_refusals_total{reason="body"}"#) > 0)
            #expect(stage.server.stop() == 0)
        }

        @Test("A compressed body is refused without decompressing it")
        func bomb() async throws {
            let stage = try AttackStage()
            let alice = try AttackStage.signUp("alice", stage.server)
            _ = try await stage.measure("compressed bodies", seconds: 2, growth: 64 << 20, least: 100) { isWanted in
                var number = 0
                let body = String(repeating: "\u{1F}", count: 40_000)
                while isWanted(number) {
                    for coding in ["gzip", "deflate", "br", "zstd", "identity, gzip"] {
                        let answer = try ask(
                            stage.server.port, "PUT", "/v1/kv/\(alice.prefix)x?if=any",
                            fields: alice.fields + ["Content-Encoding: \(coding)"], body: body)
                        #expect(answer?.status == 415)
                        number += 1
                    }
                }
                return number
            }
            #expect(stage.server.stop() == 0)
        }

        @Test("Event streams of watchers that never read are ended, and their memory is released")
        func watchers() async throws {
            let stage = try AttackStage(["write-seconds=2", "account-writes=20/40"])
            let alice = try AttackStage.signUp("alice", stage.server)
            let folder = alice.prefix + String(repeating: "x", count: 900)
            _ = try await stage.measure(
                "watchers that never read", seconds: 8, growth: 200 << 20, least: 100
            ) { isWanted in
                let watchers = try (0..<32).map { _ in
                    let connection = try RawConnection(port: stage.server.port, kernelByteCount: 4_096)
                    connection.send(
                        request("GET", "/v1/changes", fields: alice.fields + ["Accept: text/event-stream"]))
                    return connection
                }
                let writer = try RawConnection(port: stage.server.port)
                var number = 0
                while isWanted(number) {
                    writer.send(
                        request("PUT", "/v1/kv/\(folder)\(number % 50)?if=any", fields: alice.fields, body: "x"))
                    // 429 occurs at the write limit of the account.
                    #expect([200, 429].contains(writer.answer()?.status))
                    number += 1
                }
                #expect(try stage.reaches(#"http_server_refusals_total{reason="slow"}"#, 32))
                withExtendedLifetime(watchers) {}
                return number
            }
            #expect(stage.server.stop() == 0)
        }

        @Test("Clients that request long values and never read them are disconnected")
        func stalledReader() throws {
            let stage = try AttackStage(["write-seconds=1"])
            let alice = try AttackStage.signUp("alice", stage.server)
            let value = String(repeating: "x", count: 4 << 20)
            let written = try ask(
                stage.server.port, "PUT", "/v1/kv/\(alice.prefix)big?if=any", fields: alice.fields, body: value)
            #expect(written?.status == 200)
            let count = try stage.descriptorCount()
            let slow = #"http_server_refusals_total{reason="slow"}"#
            let readers = try (0..<8).map { _ in try RawConnection(port: stage.server.port) }
            for reader in readers {
                for _ in 0..<8 { reader.send(request("GET", "/v1/kv/\(alice.prefix)big", fields: alice.fields)) }
            }
            #expect(try stage.reaches(slow, 8))
            #expect(try stage.descriptorsReturn(to: count))
            withExtendedLifetime(readers) {}
            #expect(stage.server.stop() == 0)
        }

        @Test("Shutdown waits for an incomplete body only for the late-body timeout")
        func ending() throws {
            let stage = try AttackStage()
            let half = try RawConnection(port: stage.server.port)
            half.send("PUT /v1/kv/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
            // The server waits for the body now.
            #expect(half.receive().map { String(decoding: $0, as: UTF8.self) } == "HTTP/1.1 100 Continue\r\n\r\n")
            half.send("half")
            let start = ContinuousClock.now
            #expect(stage.server.stop() == 0)
            let elapsed = ContinuousClock.now - start
            print("SIGTERM with an incomplete body: \(elapsed)")
            expectFigure(elapsed < .seconds(10))
            #expect(half.answer()?.status == 408)
        }
    }
}
