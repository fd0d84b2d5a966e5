import Testing

@testable import SyncCore

@Suite("Requests to the remote")
struct RequestTableTests {
    /// The steps of a sync: `L` reads the local store, `R` the remote, `C` the remote if it has changed, `P` pushes,
    /// `S` saves, and `-` pauses.
    private func letters(_ scene: Scene) -> String {
        String(
            scene.steps.map { step in
                switch step {
                case .readLocal: "L"
                case .readRemote: "R"
                case .readRemoteUnlessUnchanged: "C"
                case .push: "P"
                case .save: "S"
                case .pause: "-"
                }
            })
    }

    @Test(
        "A sync makes the fewest requests that the situation allows, and the next one makes one read on each side",
        arguments: [
            (.nothingChanged, "LC"), (.remoteChanged, "LCS"), (.localChanged, "LPS"),
            // The second push is based on the content with which the first one conflicted.
            (.bothChanged, "LP-PS"), (.firstContact, "LRPS"), (.newRemote, "LRPS"), (.newDevice, "LRS"),
            (.bothEmpty, "LR"),
        ] as [(DryRunTests.Case, String)])
    func steps(_ situation: DryRunTests.Case, _ expected: String) throws {
        var scene = try situation.scene()
        let facts = scene.local.facts | scene.remote.facts
        _ = try scene.sync().get()
        #expect(letters(scene) == expected)
        #expect(scene.local.facts == facts && scene.remote.facts == facts)
        #expect(scene.remote.document?.localSection.isEmpty != false, "the checkpoints stay on the device")
        _ = try scene.sync().get()
        #expect(letters(scene) == (situation == .bothEmpty ? "LR" : "LC"))
    }
}
