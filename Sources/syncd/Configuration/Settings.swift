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
        Setting(
            "store", "SYNCD_STORE", .store, "store", "The store, required: sqlite:FILE, file:DIR or memory:"),
        Setting(
            "require-replica", "SYNCD_REQUIRE_REPLICA", .flag, "",
            "Refuse a PostgreSQL server without a synchronous standby, so that no write is lost with one machine"),
        Setting(
            "listen", "SYNCD_LISTEN", .text, "host:port", "The address to listen on; port 0 picks a free port",
            default: "127.0.0.1:8440"),
        Setting("tls-certificate", "SYNCD_TLS_CERTIFICATE", .path, "file", "The certificate chain, PEM"),
        Setting(
            "tls-key", "SYNCD_TLS_KEY", .secretPath, "file", "The certificate's private key, unencrypted PEM"),
        Setting(
            "insecure-http", "SYNCD_INSECURE_HTTP", .flag, "",
            "Listen without TLS on an address that other machines can reach"),
        Setting(
            "name", "SYNCD_NAME", .text, "url", "The server's public URL, the issuer of its tokens",
            default: "the address of --listen"),
        Setting(
            "origin", "SYNCD_ORIGINS", .list, "origin",
            "An origin of web pages that may call the server, such as https://shop.example.com; repeat for others"),
        Setting("web", "SYNCD_WEB", .path, "dir", "A folder with static files to serve at /"),
        Setting(
            "log-level", "SYNCD_LOG_LEVEL", .choice(Logger.Level.allCases.map(\.rawValue)), "level",
            "The log level: debug, info (one line for each request), warning or error", default: "info", of: both),
    ]

    private static let accounts = [
        Setting(
            "operator-token-file", "SYNCD_OPERATOR_TOKEN_FILE", .secretPath, "file",
            "A file with the operator's token on one line"),
        Setting(
            "allow-open-secrets", "SYNCD_ALLOW_OPEN_SECRETS", .flag, "",
            "Accept files with tokens and keys that every user of this machine can access", of: both),
        Setting("no-sign-up", "SYNCD_NO_SIGN_UP", .flag, "", "Do not let clients create accounts"),
        Setting(
            "sign-up", "SYNCD_SIGN_UP", .flag, "",
            "With --issuer: let clients create accounts with passwords as well. The names of these accounts are not "
                + "available to users of the issuer"),
        Setting(
            "ownership", "SYNCD_OWNERSHIP", .choice(ServiceConfiguration.Ownership.allCases.map(\.rawValue)), "rule",
            "The owner of a transaction that two accounts claim: keepWithFirst, transfer or share",
            default: "keepWithFirst"),
        Setting(
            "password-cost", "SYNCD_PASSWORD_COST", .number(10...20), "N",
            "The cost of hashing a password: 2^N rounds of scrypt, N from 10 to 20; 17 takes 128 MiB for each hash",
            default: "17"),
        Setting("issuer", "SYNCD_ISSUER", .text, "iss", "Accept tokens of this issuer (iss) as well"),
        Setting("audience", "SYNCD_AUDIENCE", .text, "aud", "The audience (aud) of its tokens"),
        Setting("jwks", "SYNCD_JWKS", .pathOrURL, "file-or-url", "Its public keys, a JSON Web Key Set"),
    ]

    private static let catalogue = [
        Setting(
            "catalog", "SYNCD_CATALOG", .path, "file", "The catalogue: JSON, or an Xcode .storekit file", of: both),
        Setting(
            "environment", nil, .text, "name",
            "The store environment whose purchases count, such as production or sandbox", default: "production",
            of: both),
        Setting(
            "expiry", nil, .choice(ConflictRules.expiryRules.map(\.name)), "rule",
            "Replace the catalogue's expiry rule: stackPurchases, latestExpiryWins or remoteWins", of: both),
        Setting(
            "flags", nil, .choice(ConflictRules.flagRules.map(\.name)), "rule",
            "Replace the catalogue's flag rule: purchasedWins, lastWriterWins or remoteWins", of: both),
        Setting(
            "duration", nil, .list, "ID=P3M",
            "The duration of a non-renewing subscription in a .storekit file, P3M or forever; repeat for others",
            of: both),
        Setting(
            "group-of", nil, .list, "ID=GROUP",
            "The group of a non-renewing subscription in a .storekit file (default: its own id); repeat for others",
            of: both),
        Setting(
            "units", nil, .list, "ID=N",
            "The units that a consumable in a .storekit file grants, 1 to 1,000,000 (default: 1); repeat for others",
            of: both),
    ]

    private static let evidence = [
        Setting(
            "policy", "SYNCD_POLICY", .choice(TrustPolicy.allCases.map(\.rawValue)), "policy",
            "The trust in what clients report: trusted, or verified, where only evidence grants access",
            default: "trusted"),
        Setting(
            "app-store-bundle", "SYNCD_APP_STORE_BUNDLES", .list, "bundle[=app-id]",
            "Verify the App Store's evidence for this bundle identifier. BUNDLE=APPID adds Apple's id of the app, "
                + "which notifications of production require; repeat for others", of: both),
        Setting(
            "app-store-app-id", "SYNCD_APP_STORE_APP_ID", .number(1...Int64.max), "number",
            "Apple's id of the app, if --app-store-bundle names only one and without its id"),
        Setting(
            "evidence-root", "SYNCD_EVIDENCE_ROOT", .path, "file",
            "Root certificates (PEM) instead of Apple's, for tests and for the day Apple changes its root", of: both),
        Setting(
            "play-package", "SYNCD_PLAY_PACKAGE", .text, "name", "The package name of the app on Google Play",
            of: both),
        Setting(
            "play-key", "SYNCD_PLAY_KEY", .path, "file",
            "A file with the app's licensing key of Google Play, base64", of: both),
        Setting(
            "play-push-audience", "SYNCD_PLAY_PUSH_AUDIENCE", .text, "aud",
            "The audience of Google Play's push notifications"),
        Setting(
            "play-push-account", "SYNCD_PLAY_PUSH_ACCOUNT", .text, "email",
            "The service account that sends Google Play's push notifications"),
        Setting(
            "play-service-account", "SYNCD_PLAY_SERVICE_ACCOUNT", .secretPath, "file",
            "Look up and acknowledge purchases at Google Play with this key file (JSON) of a service account"),
        Setting("play-api", "SYNCD_PLAY_API", .text, "url", "The base URL of Google Play's API, for tests"),
        Setting(
            "stripe-secret-file", "SYNCD_STRIPE_SECRET_FILE", .secretPath, "file",
            "A file with the signing secrets of Stripe's webhook, one on each line"),
        Setting(
            "stripe-price", "SYNCD_STRIPE_PRICES", .list, "price=product",
            "The product of a price of Stripe, for invoices; repeat for others. Stripe sends no prices with a one-time "
                + "Checkout session, which needs the product in its metadata \(StripeVerifier.productKey)"),
    ]

    private static let grants = [
        Setting(
            "root-key", "SYNCD_ROOT_KEY", .secretPath, "file",
            "Sign grants (GET /v1/grants) under this root key, PEM, which syncd keys root creates"),
        Setting(
            "grant-days", "SYNCD_GRANT_DAYS", .number(1...30), "N",
            "The days after which a grant expires, 1 to 30", default: "7"),
        Setting(
            "content-environment", "SYNCD_CONTENT_ENVIRONMENT", .text, "name",
            "The store environment whose purchases open content, such as production or sandbox", default: "production"),
    ]

    private static let parse = [
        Setting(
            "parse", "SYNCD_PARSE", .text, "app-id",
            "Answer apps that use a Parse SDK with this application id, with the same accounts"),
        Setting("parse-path", "SYNCD_PARSE_PATH", .text, "path", "The path of the Parse API", default: "/parse"),
        Setting(
            "parse-field", "SYNCD_PARSE_FIELDS", .list, "name=shape:group",
            "A field of the user that holds the end of a group: ExpirationDate=date:random, or dates for an array "
                + "whose last element is the end; repeat for others"),
        Setting(
            "parse-classes", "SYNCD_PARSE_CLASSES", .list, "class",
            "A class whose objects are kept for their owner, such as Purchase; repeat for others"),
    ]

    private static let limits = [
        Setting(
            "limit", "SYNCD_LIMITS", .list, "name=value",
            "A limit; repeat for others, and see --limits for names and defaults"),
        Setting(
            "trusted-proxy", "SYNCD_TRUSTED_PROXIES", .list, "address",
            "A proxy whose X-Forwarded-For or Forwarded is trusted: an address, or a range such as 10.0.0.0/8; repeat "
                + "for others"),
    ]

    /// The settings of `run` only.
    private static let device = [
        Setting(
            "local", "SYNCD_LOCAL", .store, "store", "The store on this device, required: file:DIR or sqlite:FILE",
            of: [.run]),
        Setting(
            "remote", "SYNCD_REMOTE", .stores, "store",
            "A shared store: https://HOST, file:DIR, sqlite:FILE, webdavs://USER@HOST/FOLDER, or folder:DIR for a "
                + "folder of a file-sync tool; repeat for others. Programs log in to the first", of: [.run]),
        Setting(
            "account", "SYNCD_ACCOUNT", .text, "name", "The account",
            default: "the one that is logged in, also when it changes", of: [.run]),
        Setting(
            "all-accounts", nil, .flag, "",
            "Keep all accounts of the local store in step that are there at the start. Not with a server, whose "
                + "session belongs to one account", of: [.run]),
        Setting(
            "credentials", "SYNCD_CREDENTIALS", .path, "file",
            "The file in which to keep the session on a server", default: "one for each store and server", of: [.run]),
        Setting(
            "token-file", nil, .secretPath, "file", "A file with the token of the server's operator on one line",
            of: [.run]),
        Setting(
            "ca-file", "SYNCD_CA_FILE", .path, "file", "The only certificate authorities to trust, PEM",
            default: "the system's", of: [.run]),
        Setting(
            "insecure-http", "SYNCD_INSECURE_HTTP", .flag, "",
            "Allow a server without TLS, which exposes passwords and purchases", of: [.run]),
        Setting(
            "poll", "SYNCD_POLL", .number(1...86_400), "seconds", "The longest time between two syncs, in seconds",
            default: "300", of: [.run]),
        Setting(
            "socket", "SYNCD_SOCKET", .path, "path",
            "The Unix socket for local programs, an absolute path; its folder is created for this user only",
            default: "none", of: [.run]),
        Setting(
            "socket-group", "SYNCD_SOCKET_GROUP", .text, "name", "A group whose members may read from the socket",
            of: [.run]),
        Setting(
            "group-may-act", "SYNCD_GROUP_MAY_ACT", .flag, "",
            "Let the group spend units, record evidence, and log in and out", of: [.run]),
        Setting(
            "on-event", "SYNCD_ON_EVENT", .path, "program",
            "A program that gets each event as one line of JSON on standard input, an absolute path", of: [.run]),
        Setting(
            "on-event-seconds", "SYNCD_ON_EVENT_SECONDS", .number(1...3_600), "seconds",
            "The time limit of the program, in seconds", default: "30", of: [.run]),
        Setting(
            "expiring-within", "SYNCD_EXPIRING_WITHIN", .text, "duration",
            "The time before the end of a subscription at which it counts as expiring, such as P7D or PT12H",
            default: "P3D", of: [.run]),
    ]
}
