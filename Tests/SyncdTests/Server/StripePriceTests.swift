import Foundation
import TestSupport
import Testing

@Suite("Prices of Stripe as options of the server")
struct StripePriceTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    /// Runs a server that accepts the options and then fails because the web folder is missing.
    private func serve(_ options: String, environment: [String: String] = [:]) throws -> Sandbox.Outcome {
        let path = sandbox.path("secret")
        try Data("whsec_test\n".utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        return try sandbox.run(
            "serve --store memory: --listen 127.0.0.1:0 --web nothing --stripe-secret-file \(path) " + options,
            environment: environment)
    }

    private func isAccepted(_ outcome: Sandbox.Outcome) -> Bool {
        outcome.exitCode == 2 && outcome.error.hasPrefix("syncd: --web: ")
    }

    @Test("Prices are accepted as options and in the environment, and options replace the environment")
    func accepted() throws {
        #expect(isAccepted(try serve("--stripe-price price_1=owl.monthly --stripe-price price_2=a=b")))
        #expect(isAccepted(try serve("", environment: ["SYNCD_STRIPE_PRICES": "price_1=owl price_2=owl"])))
        #expect(isAccepted(try serve("--stripe-price p=owl", environment: ["SYNCD_STRIPE_PRICES": "wrong"])))
        #expect(try serve("", environment: ["SYNCD_STRIPE_PRICES": "wrong"]).exitCode == 2)
    }

    @Test("A price without a product, with an invalid one, or passed twice is refused with the value")
    func refused() throws {
        for text in ["price_1", "=owl"] {
            #expect(
                try serve("--stripe-price \(text)")
                    == .refused(
                        2, "--stripe-price must be PRICE=PRODUCT, as price_1Owl=owl.monthly, not \"\(text)\""))
        }
        let empty = try serve("--stripe-price price_1=")
        #expect(empty.exitCode == 2, "\(empty)")
        #expect(empty.error.hasPrefix("syncd: --stripe-price \"price_1=\": the product is invalid: "), "\(empty)")
        #expect(
            try serve("--stripe-price p=a --stripe-price p=b")
                == .refused(2, "--stripe-price: \"p\" is passed twice"))
    }

    @Test("Prices without the secrets of the webhook are refused")
    func withoutSecrets() throws {
        #expect(
            try sandbox.run("serve --store memory: --listen 127.0.0.1:0 --stripe-price p=owl")
                == .refused(2, "--stripe-price needs --stripe-secret-file"))
    }
}
