package import SyncSimulation

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The complete description of a run of servers: their store, devices, actions, and faults with their times. The same
/// scenario gives the same run.
package struct ServiceScenario: Codable, Hashable, Sendable {
    /// The seed of all random decisions.
    package var seed: UInt64
    /// The initial errors of the servers' wall clocks, in milliseconds. Their number is that of the servers.
    package var servers: [Int64]
    /// The cluster that keeps the data; `nil` for a store in memory.
    package var cluster: ClusterSetup?
    /// The rule for a purchase that two accounts have.
    package var ownership: Ownership
    /// True under the policy `verified`, false under `trusted`.
    package var isVerified: Bool
    /// The account name that each device uses. Devices of equal names belong to one person.
    package var devices: [String]
    /// The rates of faults between devices and servers.
    package var link: LinkRates
    /// Limits below the defaults; `nil` for the defaults.
    package var limits: AccountLimits?
    /// The configuration with which servers start again after ``ServiceAction/reconfigure(server:)``, and all of them
    /// before the last checks; `nil` for the first one.
    package var later: LaterConfiguration?
    /// The servers that derive rows from the store; `nil` for none.
    package var projection: ProjectionSetup?
    /// The actions, in ascending order of time. The servers are stopped in pauses of more than ten minutes.
    package var steps: [ServiceStep]

    /// The rules of ownership, named as those of the service.
    package enum Ownership: String, Codable, Hashable, Sendable, CaseIterable {
        case keepWithFirst, transfer, share
    }

    /// Creates a scenario without faults.
    package init(seed: UInt64, servers: [Int64] = [0], devices: [String], steps: [ServiceStep] = []) {
        (self.seed, self.servers, self.devices, self.steps) = (seed, servers, devices, steps)
        (ownership, isVerified, link) = (.keepWithFirst, true, LinkRates())
    }

    /// Decodes a scenario, as written by ``json``.
    package init(json: [UInt8]) throws {
        self = try JSONDecoder().decode(ServiceScenario.self, from: Data(json))
        try check()
    }

    /// The scenario as JSON, with sorted members and a step in each line.
    package var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let bytes = (try? encoder.encode(self)).map { Array($0) } ?? []
        return Array(String(decoding: bytes, as: UTF8.self).replacing("},{\"action\"", with: "},\n{\"action\"").utf8)
    }

    /// Throws ``ScenarioError`` if a step names a device or a server that does not exist.
    package func check() throws {
        guard (1...3).contains(servers.count), !devices.isEmpty else {
            throw ScenarioError("a scenario has 1 to 3 servers and a device")
        }
        if let idle = projection?.idleServer, !servers.indices.contains(idle) || servers.count == 1 {
            throw ScenarioError("the server \(idle) cannot be the one without a projection")
        }
        for step in steps {
            guard step.action.devices.allSatisfy(devices.indices.contains) else {
                throw ScenarioError("impossible: \(step.action)")
            }
            guard step.action.server.map(servers.indices.contains) ?? true,
                step.action.sale.map(StoreDesk.articles.indices.contains) ?? true
            else { throw ScenarioError("impossible: \(step.action)") }
        }
    }
}

/// The error of a scenario or a check that cannot be carried out.
package struct ScenarioError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason in one line.
    package var description: String

    init(_ description: String) { self.description = description }
}

/// The rates of faults between devices and servers, in thousandths of all messages.
package struct LinkRates: Codable, Hashable, Sendable {
    /// Requests that never arrive.
    package var lostRequests = 0
    /// Requests that arrive and whose answer does not.
    package var lostAnswers = 0
    /// Requests that arrive twice, at any two servers.
    package var repeatedRequests = 0
    /// Messages that take up to a minute, so that many clients have given up.
    package var slow = 0
    /// Pieces of event streams that are lost together with their connection.
    package var cutStreams = 0
    /// The longest delay of other messages, in milliseconds.
    package var longestDelay = 50

    /// A link without faults.
    package init() {}
}

/// The limits of an account at one server.
package struct AccountLimits: Codable, Hashable, Sendable {
    /// The sustained number of requests that may change something, and the number of them at once.
    package var writesPerSecond: Double
    package var writeBurst: Int
    /// Keys beside the ledger.
    package var keys: Int

    /// Limits of requests that may change something, and of keys.
    package init(writesPerSecond: Double, writeBurst: Int, keys: Int) {
        (self.writesPerSecond, self.writeBurst, self.keys) = (writesPerSecond, writeBurst, keys)
    }
}

/// A configuration that servers get one after another.
package struct LaterConfiguration: Codable, Hashable, Sendable {
    /// True for the policy `verified`.
    package var isVerified: Bool
    /// The number of months by which season passes that are recorded from then on are longer.
    package var extraMonths: Int64

    /// A configuration with a policy and a catalogue.
    package init(isVerified: Bool, extraMonths: Int64) {
        (self.isVerified, self.extraMonths) = (isVerified, extraMonths)
    }
}

/// A scheduled action.
package struct ServiceStep: Codable, Hashable, Sendable {
    /// The time in milliseconds since the start of the run.
    package var at: Int64
    /// The action.
    package var action: ServiceAction

    /// Creates a step.
    package init(at: Int64, _ action: ServiceAction) { (self.at, self.action) = (at, action) }
}
