import HTTPTypes
import SyncCore
import SyncProtocol
import Testing

@Suite("Problems")
struct ProblemTests {
    private static let kinds: [BackendError.Kind] = [
        .invalidKey, .invalidCursor, .unsupported, .permissionDenied, .full, .tooLarge, .damaged, .notAStore,
        .newerFormat, .missing, .unavailable, .busy, .cancelled, .cursorExpired, .other,
    ]

    @Test("An error of any kind and disposition survives the way over the wire")
    func roundTrip() throws {
        let key = try EntryKey("a/\"é\"\u{2028}")
        for kind in Self.kinds {
            for disposition in [BackendError.Disposition.transient, .permanent, .outcomeUnknown] {
                let sent = BackendError(
                    kind, operation: .write, key: key, disposition: disposition, message: "\"why\" — and\twhat to do")
                let problem = Problem(sent)
                #expect((400...599).contains(problem.status))
                // An unknown outcome is never the client's mistake.
                if disposition == .outcomeUnknown { #expect(problem.status >= 500) }
                let received = try #require(Problem(json: problem.json))
                #expect(received == problem)
                let error = received.error(during: .write, key: key)
                #expect(error.kind == kind && error.disposition == disposition && error.key == key)
                #expect(error.message == sent.message && error.operation == .write)
            }
        }
    }

    @Test("The JSON has the members of RFC 9457, sorted by name")
    func json() {
        let problem = Problem(BackendError(.full, message: "no space is left"), detail: "the server has no space left")
        #expect(
            String(decoding: problem.json, as: UTF8.self) == """
                {"detail":"the server has no space left","disposition":"permanent","kind":"full","status":507,\
                "title":"full","type":"urn:entitlementsync:problem:full"}
                """)
        let other = Problem(.notFound, "there is nothing at this path")
        #expect(
            String(decoding: other.json, as: UTF8.self)
                == #"{"detail":"there is nothing at this path","status":404,"title":"Not Found","type":"about:blank"}"#)
    }

    @Test("A failure without a disposition leaves the outcome of a write unknown, and that of a read not")
    func silent() {
        let gateway = Problem(.badGateway, "")
        #expect(gateway.error(during: .write).disposition == .outcomeUnknown)
        #expect(gateway.error(during: .delete).disposition == .outcomeUnknown)
        #expect(gateway.error(during: .read).disposition == .transient)
        #expect(gateway.error(during: .read).message == "the server answered 502 Bad Gateway")
        #expect(Problem(.tooManyRequests, "").error(during: .write).disposition == .transient)
        #expect(Problem(.notFound, "").error(during: .read).kind == .notAStore)
    }

    @Test("A kind or disposition of a later version is read as far as it is known")
    func unknown() throws {
        let json =
            #"{"type":"x","title":"t","status":503,"detail":"d","kind":"melted","disposition":"maybe","new":[1]}"#
        let error = try #require(Problem(json: Array(json.utf8))).error(during: .write)
        #expect(error.kind == .unavailable && error.disposition == .outcomeUnknown)
        #expect(BackendError.Kind(name: "melted") == nil)
    }

    @Test("A body that is no problem is rejected", arguments: ["", "{}", "[]", "null", "{\"status\":\"x\"}", "<html>"])
    func none(body: String) {
        #expect(Problem(json: Array(body.utf8)) == nil)
    }
}
