import Entitlements
import Logging
import StoreEvidence
import SyncService

extension Setting {
    /// Options that a configuration cannot set: they act once, or are for tests.
    static let commandLineOnly: Set<String> = ["config", "limits", "accept-clock", "at"]

    /// Settings that exclude each other. One of them replaces the other of a source that comes later.
    static let opposites = ["sign-up": "no-sign-up", "no-sign-up": "sign-up"]

    /// All settings, in the order of Docs/Operations.md.
    static let all: [Setting] = network + accounts + catalogue + evidence + grants + parse + limits + device

    private static let both: Set<Command> = [.serve, .run]

    private static let network = [
        Setting("store", .store, "store", "The store, required: sqlite:FILE, file:DIR or memory:"),
        Setting(
            "require-replica", .flag, "",
            "Refuse a PostgreSQL server without a synchronous standby, so that no write is lost with one machine"),
        Setting(
            "listen", .text, "host:port", "The address to listen on; port 0 picks a free port",
            default: "127.0.0.1:8440"),
        Setting("tls-certificate", .path, "file", "The certificate chain, PEM"),
        Setting("tls-key", .secretPath, "file", "The certificate's private key, unencrypted PEM"),
        Setting("insecure-http", .flag, "", "Listen without TLS on an address that other machines can reach"),
        Setting(
            "name", .text, "url", "The server's public URL, the issuer of its tokens",
            default: "the address of --listen"),
        Setting(
            "origin", .list, "origin",
            "An origin of web pages that may call the server, such as https://shop.example.com; repeat for others",
            variable: "SYNCD_ORIGINS"),
        Setting("web", .path, "dir", "A folder with static files to serve at /"),
        Setting(
            "projection", .flag, "",
            "Derive rows about all accounts beside the store, for search, statistics and SQL; see Docs/Sql.md"),
        Setting(
            "console", .flag, "",
            "Serve a page for support people at /console, with --projection; see Docs/Console.md"),
        Setting(
            "webhooks", .secretPath, "file",
            "A file (JSON) with the endpoints that receive the projection's events; see Docs/Webhooks.md"),
        Setting(
            "log-level", .choice(Logger.Level.allCases.map(\.rawValue)), "level",
            "The log level: debug, info (one line for each request), warning or error", default: "info", of: both),
    ]

    private static let accounts = [
        Setting("operator-token-file", .secretPath, "file", "A file with the operator's token on one line"),
        Setting(
            "allow-open-secrets", .flag, "",
            "Accept files with tokens and keys that every user of this machine can access", of: both),
        Setting("no-sign-up", .flag, "", "Do not let clients create accounts"),
        Setting(
            "sign-up", .flag, "",
            "With --issuer: let clients create accounts with passwords as well. The names of these accounts are not "
                + "available to users of the issuer"),
        Setting(
            "ownership", .choice(ServiceConfiguration.Ownership.allCases.map(\.rawValue)), "rule",
            "The owner of a transaction that two accounts claim: keepWithFirst, transfer or share",
            default: "keepWithFirst"),
        Setting(
            "password-cost", .number(10...20), "N",
            "The cost of hashing a password: 2^N rounds of scrypt, N from 10 to 20; 17 takes 128 MiB for each hash",
            default: "17"),
        Setting("issuer", .text, "iss", "Accept tokens of this issuer (iss) as well"),
        Setting("audience", .text, "aud", "The audience (aud) of its tokens"),
        Setting("jwks", .pathOrURL, "file-or-url", "Its public keys, a JSON Web Key Set"),
    ]

    private static let catalogue = [
        Setting("catalog", .path, "file", "The catalogue: JSON, or an Xcode .storekit file", of: both),
        Setting(
            "environment", .text, "name", "The store environment whose purchases count, such as production or sandbox",
            default: "production", of: both, hasVariable: false),
        Setting(
            "expiry", .choice(ConflictRules.expiryRules.map(\.name)), "rule",
            "Replace the catalogue's expiry rule: stackPurchases, latestExpiryWins or remoteWins", of: both,
            hasVariable: false),
        Setting(
            "flags", .choice(ConflictRules.flagRules.map(\.name)), "rule",
            "Replace the catalogue's flag rule: purchasedWins, lastWriterWins or remoteWins", of: both,
            hasVariable: false),
        Setting(
            "duration", .list, "ID=P3M",
            "The duration of a non-renewing subscription in a .storekit file, P3M or forever; repeat for others",
            of: both, hasVariable: false),
        Setting(
            "group-of", .list, "ID=GROUP",
            "The group of a non-renewing subscription in a .storekit file (default: its own id); repeat for others",
            of: both, hasVariable: false),
        Setting(
            "units", .list, "ID=N",
            "The units that a consumable in a .storekit file grants, 1 to 1,000,000 (default: 1); repeat for others",
            of: both, hasVariable: false),
    ]

    private static let evidence = [
        Setting(
            "policy", .choice(TrustPolicy.allCases.map(\.rawValue)), "policy",
            "The trust in what clients report: trusted, or verified, where only evidence grants access",
            default: "trusted"),
        Setting(
            "app-store-bundle", .list, "bundle[=app-id]",
            "Verify the App Store's evidence for this bundle identifier. BUNDLE=APPID adds Apple's id of the app, "
                + "which notifications of production require; repeat for others", of: both,
            variable: "SYNCD_APP_STORE_BUNDLES"),
        Setting(
            "app-store-app-id", .number(1...Int64.max), "number",
            "Apple's id of the app, if --app-store-bundle names only one and without its id"),
        Setting(
            "evidence-root", .path, "file",
            "Root certificates (PEM) instead of Apple's, for tests and for the day Apple changes its root", of: both),
        Setting("play-package", .text, "name", "The package name of the app on Google Play", of: both),
        Setting("play-key", .path, "file", "A file with the app's licensing key of Google Play, base64", of: both),
        Setting("play-push-audience", .text, "aud", "The audience of Google Play's push notifications"),
        Setting("play-push-account", .text, "email", "The service account that sends Google Play's push notifications"),
        Setting(
            "play-service-account", .secretPath, "file",
            "Look up and acknowledge purchases at Google Play with this key file (JSON) of a service account"),
        Setting("play-api", .text, "url", "The base URL of Google Play's API, for tests"),
        Setting(
            "stripe-secret-file", .secretPath, "file",
            "A file with the signing secrets of Stripe's webhook, one on each line"),
        Setting(
            "stripe-price", .list, "price=product",
            "The product of a price of Stripe, for invoices; repeat for others. Stripe sends no prices with a one-time "
                + "Checkout session, which needs the product in its metadata \(StripeVerifier.productKey)",
            variable: "SYNCD_STRIPE_PRICES"),
    ]

    private static let grants = [
        Setting(
            "root-key", .secretPath, "file",
            "Sign grants (GET /v1/grants) under this root key, PEM, which syncd keys root creates"),
        Setting("grant-days", .number(1...30), "N", "The days after which a grant expires, 1 to 30", default: "7"),
        Setting(
            "content-environment", .text, "name",
            "The store environment whose purchases open content, such as production or sandbox", default: "production"),
    ]

    private static let parse = [
        Setting(
            "parse", .text, "app-id",
            "Answer apps that use a Parse SDK with this application id, with the same accounts"),
        Setting("parse-path", .text, "path", "The path of the Parse API", default: "/parse"),
        Setting(
            "parse-field", .list, "name=shape:group",
            "A field of the user that holds the end of a group: ExpirationDate=date:random, or dates for an array "
                + "whose last element is the end; repeat for others", variable: "SYNCD_PARSE_FIELDS"),
        Setting(
            "parse-classes", .list, "class",
            "A class whose objects are kept for their owner, such as Purchase; repeat for others"),
    ]

    private static let limits = [
        Setting(
            "limit", .list, "name=value", "A limit; repeat for others, and see --limits for names and defaults",
            variable: "SYNCD_LIMITS"),
        Setting(
            "trusted-proxy", .list, "address",
            "A proxy whose X-Forwarded-For or Forwarded is trusted: an address, or a range such as 10.0.0.0/8; repeat "
                + "for others", variable: "SYNCD_TRUSTED_PROXIES"),
    ]

    /// The settings of `run` only.
    private static let device = [
        Setting("local", .store, "store", "The store on this device, required: file:DIR or sqlite:FILE", of: [.run]),
        Setting(
            "remote", .stores, "store",
            "A shared store: https://HOST, file:DIR, sqlite:FILE, webdavs://USER@HOST/FOLDER, or folder:DIR for a "
                + "folder of a file-sync tool; repeat for others. Programs log in to the first", of: [.run]),
        Setting(
            "account", .text, "name", "The account", default: "the one that is logged in, also when it changes",
            of: [.run]),
        Setting(
            "all-accounts", .flag, "",
            "Keep all accounts of the local store in step that are there at the start. Not with a server, whose "
                + "session belongs to one account", of: [.run], hasVariable: false),
        Setting(
            "credentials", .path, "file", "The file in which to keep the session on a server",
            default: "one for each store and server", of: [.run]),
        Setting(
            "token-file", .secretPath, "file", "A file with the token of the server's operator on one line", of: [.run],
            hasVariable: false),
        Setting(
            "ca-file", .path, "file", "The only certificate authorities to trust, PEM", default: "the system's",
            of: [.run]),
        Setting(
            "insecure-http", .flag, "", "Allow a server without TLS, which exposes passwords and purchases",
            of: [.run]),
        Setting(
            "poll", .number(1...86_400), "seconds", "The longest time between two syncs, in seconds", default: "300",
            of: [.run]),
        Setting(
            "socket", .path, "path",
            "The Unix socket for local programs, an absolute path; its folder is created for this user only",
            default: "none", of: [.run]),
        Setting("socket-group", .text, "name", "A group whose members may read from the socket", of: [.run]),
        Setting(
            "group-may-act", .flag, "", "Let the group spend units, record evidence, and log in and out", of: [.run]),
        Setting(
            "on-event", .path, "program",
            "A program that gets each event as one line of JSON on standard input, an absolute path", of: [.run]),
        Setting(
            "on-event-seconds", .number(1...3_600), "seconds", "The time limit of the program, in seconds",
            default: "30", of: [.run]),
        Setting(
            "expiring-within", .text, "duration",
            "The time before the end of a subscription at which it counts as expiring, such as P7D or PT12H",
            default: "P3D", of: [.run]),
    ]
}
