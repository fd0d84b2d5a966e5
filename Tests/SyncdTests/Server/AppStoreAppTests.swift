import Foundation
import TestSupport
import Testing

@Suite("Apps of the App Store as options of the server")
struct AppStoreAppTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    /// Runs a server that accepts the options and then fails because the web folder is missing.
    private func serve(_ options: String, environment: [String: String] = [:]) throws -> Sandbox.Outcome {
        try sandbox.run(
            "serve --store memory: --listen 127.0.0.1:0 --web nothing " + options, environment: environment)
    }

    private func isAccepted(_ outcome: Sandbox.Outcome) -> Bool {
        outcome.exitCode == 2 && outcome.error.hasPrefix("syncd: --web: ")
    }

    @Test(
        "One app with two options, and several with their ids, are accepted",
        arguments: [
            "--app-store-bundle com.a", "--app-store-bundle com.a --app-store-app-id 1",
            "--app-store-bundle com.a=1", "--app-store-bundle com.a=1 --app-store-app-id 1",
            "--app-store-bundle com.a=1 --app-store-bundle com.b=2",
            "--app-store-bundle com.a --app-store-bundle com.b",
            "--app-store-bundle com.a=1 --app-store-bundle com.a",
        ])
    func accepted(options: String) throws {
        let outcome = try serve(options)
        #expect(isAccepted(outcome), "\(outcome)")
    }

    @Test("The environment and the configuration file name several apps too")
    func sources() throws {
        #expect(isAccepted(try serve("", environment: ["SYNCD_APP_STORE_BUNDLES": "com.a=1 com.b=2"])))
        let wrong = try serve("", environment: ["SYNCD_APP_STORE_BUNDLES": "com.a=1 com.b=x"])
        #expect(
            wrong
                == .refused(
                    2,
                    "SYNCD_APP_STORE_BUNDLES: must be BUNDLE or BUNDLE=APPID, as com.example.app=1234567890, not "
                        + "\"com.b=x\""), "\(wrong)")
        try sandbox.writeConfiguration(
            """
            {"serve": {"store": "memory:",
              "app-store-bundle": ["com.a=1",
                "com.b=0"]
            }}
            """)
        #expect(
            try sandbox.run("config check --config syncd.json").output
                == """
                syncd.json:3: serve.app-store-bundle: must be BUNDLE or BUNDLE=APPID, as com.example.app=1234567890, \
                not "com.b=0"

                """)
    }

    @Test(
        "Ids that contradict each other, or that belong to no app, are refused with the remedy",
        arguments: [
            (
                "--app-store-bundle com.a --app-store-bundle com.b --app-store-app-id 1",
                "--app-store-app-id is the id of one app, but there are 2: pass --app-store-bundle "
                    + "BUNDLE=APPID for each"
            ),
            (
                "--app-store-bundle com.a=1 --app-store-bundle com.a=2",
                "--app-store-bundle \"com.a=2\": the app is passed twice, also with 1"
            ),
            (
                "--app-store-bundle com.a=1 --app-store-app-id 2",
                "--app-store-app-id must be 1, as --app-store-bundle has it, not 2"
            ),
            (
                "--app-store-bundle =1",
                "--app-store-bundle must be BUNDLE or BUNDLE=APPID, as com.example.app=1234567890, not \"=1\""
            ),
            ("--app-store-app-id 1", "--app-store-app-id needs --app-store-bundle"),
            (
                "--app-store-bundle com.a --app-store-app-id 1 --app-store-app-id 2",
                "--app-store-app-id can be passed only once. See 'syncd help serve'."
            ),
        ])
    func refused(options: String, reason: String) throws {
        #expect(try serve(options) == .refused(2, reason))
    }
}
