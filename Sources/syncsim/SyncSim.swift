import ArgumentParser

@main
struct SyncSim: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "syncsim", abstract: "Proves conflict rules and stores before they meet a customer.")
}
