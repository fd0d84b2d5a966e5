/// What happened in a run, in the order in which it happened.
public struct Trace: Codable, Hashable, Sendable {
    /// Who or what has a line of its own in the trace.
    public struct Lane: Codable, Hashable, Sendable {
        /// What a lane stands for.
        public enum Kind: String, Codable, Hashable, Sendable {
            /// A device, with all processes on it.
            case replica
            /// The store on a device: always the lane right after that of its device.
            case localStore
            /// The store that the devices share.
            case remote
        }

        /// What it stands for.
        public var kind: Kind
        /// A short name: `device 1`, `store 1`, `remote`.
        public var name: String

        /// A lane.
        public init(_ kind: Kind, name: String) {
            self.kind = kind
            self.name = name
        }
    }

    /// The lines, from the first device to the remote.
    public var lanes: [Lane]
    /// What happened, in the order in which it happened; times never go back.
    public var events: [TraceEvent]

    /// A trace.
    public init(lanes: [Lane], events: [TraceEvent] = []) {
        self.lanes = lanes
        self.events = events
    }
}

/// One thing that happened.
public struct TraceEvent: Codable, Hashable, Sendable {
    /// What happened.
    public enum Kind: Codable, Hashable, Sendable {
        /// Somebody begins to do something on this lane: `buys com.example.3months as t1`.
        case begun(step: Int, String)
        /// What came of it.
        case ended(step: Int, String, isFailure: Bool)
        /// A message leaves this lane. Ids are unique in a run; each is followed by one of `arrived` or `lost`, or by
        /// several `arrived` when the network repeated it.
        case sent(message: Int, to: Int, String)
        /// A message arrives on this lane.
        case arrived(message: Int, String)
        /// A message never arrives.
        case lost(message: Int, String)
        /// A process on this lane begins.
        case started(process: Int)
        /// A process on this lane ends without being asked.
        case crashed(process: Int)
        /// From now until `until` (milliseconds since the beginning of the run) this lane is not as it should be.
        case disturbed(Disturbance, until: Int64, String)
        /// What this replica believes now: the end of what it has, for each group (milliseconds since 1970 UTC; `nil`
        /// for never), and whether it is active.
        case believes(group: String, expires: Int64?, isActive: Bool)
        /// A clock was moved by so many milliseconds.
        case clockMoved(by: Int64)
        /// What a store lost, or what was put back.
        case storeChanged(String)
        /// Faults are over.
        case healed
        /// An oracle was violated here.
        case violated(oracle: String, String)
        /// Anything else worth reading.
        case note(String)
    }

    /// What is not as it should be for a while.
    public enum Disturbance: String, Codable, Hashable, Sendable {
        /// Messages from this lane do not get through.
        case cutOutgoing
        /// Messages to this lane do not get through.
        case cutIncoming
        /// The store has no room.
        case full
        /// The clock is wrong.
        case wrongClock
    }

    /// When: milliseconds of virtual time since the beginning of the run.
    public var at: Int64
    /// Where: an index of ``Trace/lanes``.
    public var lane: Int
    /// What happened.
    public var kind: Kind

    /// An event.
    public init(at: Int64, lane: Int, _ kind: Kind) {
        self.at = at
        self.lane = lane
        self.kind = kind
    }
}
