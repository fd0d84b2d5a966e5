import ArgumentParser
import Entitlements
import Foundation
import SyncCore
import SyncServer
import SyncService

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "Create a root key, and show and rotate the keys of a server.",
        discussion: """
            A server signs tokens and grants with keys that it replaces every 30 days. A root key signs statements \
            about these keys, so that an app that pins the root accepts all of them: see Docs/Grants.md.

            Examples:
              syncd keys root /etc/syncd/root.pem --create
              syncd keys show --store sqlite:/var/lib/syncd/store.sqlite
              syncd keys rotate --store sqlite:/var/lib/syncd/store.sqlite
            """,
        subcommands: [KeysRoot.self, KeysRotate.self, KeysShow.self])
}

struct KeysRoot: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "root", abstract: "Print the public part of a root key, for apps to pin, or create a root key.",
        discussion: """
            Keep a copy of the file in a safe place: without it, apps that pin the key accept no grant of a new server.
            """)

    @Argument(help: ArgumentHelp("The file with the root key, PEM.", valueName: "file"))
    var file: String

    @Flag(help: "Create the file with a new key. An existing file is refused.")
    var create = false

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let key = create ? try RootKeyFile.create(file) : try RootKeyFile.read(file)
        try output.show(["file": .string(file), "publicKey": .string(key.publicText)], or: key.publicText)
    }
}

struct KeysShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show the keys with which the servers over a store sign.")

    @OptionGroup var place: ServerKeysOptions

    func run() async throws { try place.show(try await place.keys().all()) }
}

struct KeysRotate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate", abstract: "Add a new key, with which the servers over a store sign from now on.",
        discussion: """
            Servers that run notice the new key by themselves. Tokens and grants that the former key signed stay valid \
            until they expire. After a theft of the store, --remove-former removes all former keys: access tokens are \
            refused at once, and devices fetch new ones with their sessions. Grants that were forged with a stolen key \
            stay valid for apps until that key's statement ends, 60 days after its creation.
            """)

    @Flag(help: "Remove all former keys, after a theft.")
    var removeFormer = false

    @OptionGroup var place: ServerKeysOptions

    func run() async throws { try place.show(try await place.keys().rotate(removesFormer: removeFormer)) }
}

/// The store of a server whose keys a command concerns.
struct ServerKeysOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The server's store, required: sqlite:FILE, file:DIR or postgres://HOST/DATABASE.", valueName: "store"))
    var store: String

    @OptionGroup var output: OutputOptions

    func keys() throws -> ServerKeys {
        ServerKeys(of: try StoreURL(store, option: "--store").existing())
    }

    func show(_ keys: [ServerKeys.Description]) throws {
        guard !keys.isEmpty else {
            throw Failure(.notFound, "no server has used this store yet: start syncd serve once")
        }
        let rows = keys.enumerated().map { index, key in
            let (created, end) = (Timestamp(milliseconds: key.created), Timestamp(milliseconds: key.signsUntil))
            let isCurrent = index == keys.count - 1
            let json: JSON = [
                "id": .string(key.id), "created": "\(created)", "signsUntil": "\(end)", "current": .bool(isCurrent),
            ]
            let use = isCurrent ? "signs until \(end)" : "signs no more; verifies what it has signed"
            return (json, "\(key.id)  created \(created)  \(use)")
        }
        try output.show(["keys": .array(rows.map(\.0))], or: rows.map(\.1).joined(separator: "\n"))
    }
}
