import Testing

/// A command line and its expected error.
struct Refusal: CustomTestStringConvertible {
    var exitCode: Int32
    var arguments: [String]
    var reason: String

    init(_ exitCode: Int32, _ command: String, _ reason: String) {
        self.init(exitCode, command.split(separator: " ").map(String.init), reason)
    }

    init(_ exitCode: Int32, _ arguments: [String], _ reason: String) {
        self.exitCode = exitCode
        self.arguments = arguments
        self.reason = reason
    }

    var testDescription: String { "\(exitCode): \(reason.prefix(100))" }
}

extension Refusal {
    static let usage: [Refusal] = [
        Refusal(
            2, "record",
            "'syncd record' needs a subcommand: purchase, refund, reinstatement, renewal, credit, transfer, flag, "
                + "pending, evidence. See 'syncd help record'."),
        Refusal(2, "catalog", "'syncd catalog' needs a subcommand: check, convert. See 'syncd help catalog'."),
        Refusal(2, "record purchase", "Missing expected argument '<product>'. See 'syncd help record purchase'."),
        Refusal(2, "record refund", "Missing expected argument '<transaction>'. See 'syncd help record refund'."),
        Refusal(2, "check", "Missing expected argument '<entitlement>'. See 'syncd help check'."),
        Refusal(2, "import h.json", "Missing expected argument '--format <format>'. See 'syncd help import'."),
        Refusal(2, "status --wat", "Unknown option '--wat'. Did you mean '--at'? See 'syncd help status'."),
        Refusal(2, "status now", "Unexpected argument 'now'. See 'syncd help status'."),
        Refusal(2, "record credit random", "pass either --until or --for. See 'syncd help record credit'."),
        // The former name of the command.
        Refusal(2, "record grant random", "pass either --until or --for. See 'syncd help record credit'."),
        Refusal(
            2, "record credit random --until 2027-01-01 --for P1M",
            "pass either --until or --for. See 'syncd help record credit'."),
        Refusal(
            2, "record credit random --for soon",
            #"--for: "soon" is not a duration: it must begin with P (write P3M, P1W or P1D)"#),
        Refusal(2, "record credit random --for P0D", #"--for must be longer than zero, not "P0D""#),
        Refusal(
            2, "export --format xml",
            "The value 'xml' is invalid for '--format <format>'. Please provide one of 'history', 'ledger', "
                + "'json-lines' or 'csv'. See 'syncd help export'."),
        Refusal(
            2, "status --expiry best",
            #"--expiry must be one of stackPurchases, latestExpiryWins, remoteWins, not "best""#),
        Refusal(2, ["status", "--environment", ""], "--environment: an id must not be empty"),
        Refusal(2, ["status", "--account", ""], "--account: account name: an id must not be empty"),
        Refusal(2, ["status", "--catalog", ""], "a file name must not be empty"),
        Refusal(2, "sync --account alice", "there is no remote to sync with (pass --remote)"),
        Refusal(2, "restore --account alice", "there is no remote to sync with (pass --remote)"),
        Refusal(
            4, "sync --remote file:remote",
            "syncing needs an account, and no account is logged in (pass --account)"),
        Refusal(
            4, "sync --local file:new --remote http://127.0.0.1:9",
            "syncing needs an account, and no account is logged in (syncd account login NAME)"),
        Refusal(
            4, "restore --local file:new --remote http://127.0.0.1:9",
            "syncing needs an account, and no account is logged in (syncd account login NAME)"),
        Refusal(2, "serve --store memory: --console", "--console needs --projection"),
        Refusal(
            2, "serve --store memory: --policy verified",
            "the policy verified does not fit \"consumables\": \"deviceLocal\", the default: the server cannot verify "
                + "units that stay on one device; add \"policy\": {\"consumables\": \"shared\"} to the catalogue "
                + "(syncd catalog convert makes one of a .storekit file)"),
    ]

    static let stores: [Refusal] = [
        Refusal(
            2, "status --local http://host",
            "--local must be a store on this machine, not the server http://host"),
        Refusal(
            2, "status --local store",
            #"--local must be file:DIR, sqlite:FILE, folder:DIR or memory:, not "store""#),
        Refusal(
            2, "status --local file:",
            #"--local must be file:DIR, sqlite:FILE, folder:DIR or memory:, not "file:""#),
        Refusal(
            2, "sync --remote memory:x",
            #"--remote must be file:DIR, sqlite:FILE, folder:DIR or memory:, not "memory:x""#),
        Refusal(
            4, "status --local file:foreign --account alice",
            #"local store: read "accounts/alice/account": foreign: the folder has other files and no "#
                + "store.format; choose an empty folder"),
        Refusal(
            4, "record flag \(Owls.night) --local file:foreign --account alice",
            #"local store: read "accounts/alice/account": foreign: the folder has other files and no "#
                + "store.format; choose an empty folder"),
        Refusal(
            2, "sync --remote folder://host/a",
            #"--remote: "folder://host/a" names a host: write folder:DIR for a folder on this machine"#),
        Refusal(
            3, "sync --account alice --remote file:away",
            #"remote store: read "accounts/alice/initial/ledger": away: the folder does not exist; mount it, or allow "#
                + "the creation of the store (syncd sync --create-remote)"),
        Refusal(
            3, "restore --account alice --remote folder:away",
            "remote store: list: away: the folder does not exist; mount it, or allow the creation of the store "
                + "(syncd sync --create-remote)"),
        Refusal(
            4, "record flag \(Owls.night) --local folder:here",
            "folder:here cannot write conditionally, but the local store must"),
        Refusal(
            4, "sync --account alice --remote file:foreign",
            #"remote store: read "accounts/alice/initial/ledger": foreign: the folder has other files and no "#
                + "store.format; choose an empty folder"),
        Refusal(
            4, "record flag \(Owls.night) --local file:foreign/letter",
            #"local store: read "device/session": foreign/letter/store.format: there is a file where a folder "#
                + "should be, or the reverse; move it away (open: Not a directory)"),
        Refusal(
            4, "record flag \(Owls.night) --local file:/proc/owls/store",
            #"local store: write "device/replica": /proc/owls: no folder can be created there; choose another place "#
                + "(mkdir: No such file or directory)"),
    ]

    private static func purchase(_ arguments: String...) -> [String] {
        ["record", "purchase", Owls.night] + arguments
    }

    private static let badQuantity =
        "is invalid for '--quantity <count>': a quantity is a whole number from 1 to 10,000. "
        + "See 'syncd help record purchase'."

    static let purchases: [Refusal] = [
        Refusal(2, purchase("--quantity", "0"), "quantity must be 1 to 10,000, not 0"),
        Refusal(2, purchase("--quantity", "-1"), "quantity must be 1 to 10,000, not -1"),
        Refusal(2, purchase("--quantity", "10001"), "quantity must be 1 to 10,000, not 10001"),
        Refusal(2, purchase("--quantity", "many"), "The value 'many' \(badQuantity)"),
        Refusal(2, purchase("--quantity", "1.5"), "The value '1.5' \(badQuantity)"),
        Refusal(2, purchase("--quantity", "9223372036854775808"), "The value '9223372036854775808' \(badQuantity)"),
        Refusal(
            2, purchase("--date", "2026-02-29"),
            #"--date: "2026-02-29" is not a date: the day is 29, not 1 to 28 "#
                + "(write 2026-01-31T12:00:00Z or 2026-01-31)"),
        Refusal(
            2, purchase("--at", "yesterday"),
            #"--at: "yesterday" is not a date: the year needs 4 digits (write 2026-01-31T12:00:00Z or 2026-01-31)"#),
        Refusal(2, purchase("--transaction", ""), "transaction: an id must not be empty"),
        Refusal(
            2, purchase("--transaction", String(repeating: "x", count: 256)),
            "transaction: an id must have at most 255 bytes, not 256"),
        Refusal(
            2, purchase("--transaction", String(repeating: "🦉", count: 64)),
            "transaction: an id must have at most 255 bytes, not 256"),
        Refusal(
            2, purchase("--transaction", "a\nb"),
            "transaction: \"a\u{FFFD}b\" contains control characters, which an id must not"),
        Refusal(
            2, purchase("--transaction", "a\u{1B}[31m"),
            "transaction: \"a\u{FFFD}[31m\" contains control characters, which an id must not"),
        Refusal(2, purchase("--store", ""), "transaction: an id must not be empty"),
        Refusal(2, ["record", "refund", ""], "transaction: an id must not be empty"),
        Refusal(
            2, ["record", "refund", "t1", "--reason", String(repeating: "x", count: 1_001)],
            "reason must be at most 1,000 bytes, not 1001"),
        Refusal(2, ["use", "random-owls", "--id", ""], "spend id: an id must not be empty"),
        Refusal(2, "record flag \(Owls.units)", "\"\(Owls.units)\" is consumable; only a nonConsumable has a flag"),
        Refusal(
            5, "record purchase \(Owls.sixMonths) --transaction t1",
            "transaction \"t1\" is already recorded differently: product \(Owls.threeMonths)"),
        Refusal(
            5, "record purchase \(Owls.threeMonths) --transaction t1 --date 2026-01-02",
            "transaction \"t1\" is already recorded differently: date 2026-01-01T00:00:00.000Z"),
        Refusal(
            5, "record purchase \(Owls.threeMonths) --transaction t1 --quantity 2",
            "transaction \"t1\" is already recorded differently: quantity 1"),
    ]

    static let missing: [Refusal] = [
        Refusal(3, "record purchase nothing", #"the catalogue has no product "nothing""#),
        Refusal(3, "record flag nothing", #"the catalogue has no product "nothing""#),
        Refusal(3, "record pending nothing", #"the catalogue has no product "nothing""#),
        Refusal(3, "record purchase nothing --local file:new", #"the catalogue has no product "nothing""#),
        Refusal(3, "check nothing", #"the catalogue has no entitlement "nothing""#),
        Refusal(3, "use nothing", #"the catalogue has no entitlement "nothing""#),
        Refusal(3, "use nothing --local file:new", #"the catalogue has no entitlement "nothing""#),
        Refusal(3, "explain nothing", #"the catalogue has no entitlement "nothing""#),
        Refusal(3, "timeline nothing", #"there is no group "nothing" in the catalogue or the ledger"#),
        Refusal(3, "status --catalog none.json", "none.json: no such file"),
        Refusal(3, "import none.json --format history", "none.json: no such file"),
        Refusal(3, "evaluate --history none.json", "none.json: no such file"),
        Refusal(3, "demo --catalog none.json", "none.json: no such file"),
        Refusal(1, "status --catalog foreign", "foreign must be a file, not a folder"),
        Refusal(1, "export --output none/out", "none/out: cannot be written: No such file or directory"),
        Refusal(1, "export --output foreign", "foreign: cannot be written: Is a directory"),
    ]
}
