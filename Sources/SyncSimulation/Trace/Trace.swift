/// The events of a run, in the order in which they happened.
public struct Trace: Codable, Hashable, Sendable {
    /// A participant with a line of its own in the trace.
    public struct Lane: Codable, Hashable, Sendable {
        /// The kind of participant.
        public enum Kind: String, Codable, Hashable, Sendable {
            /// A device, with all processes on it.
            case replica
            /// The store on a device. Its lane follows that of its device.
            case localStore
            /// The store that the devices share.
            case remote
        }

        /// The kind of participant.
        public var kind: Kind
        /// A short name: `device 1`, `store 1`, `remote`.
        public var name: String

        /// Creates a lane.
        package init(_ kind: Kind, name: String) {
            self.kind = kind
            self.name = name
        }
    }

    /// The lanes, from the first device to the remote.
    public var lanes: [Lane]
    /// The events in the order in which they happened; times never decrease.
    public var events: [TraceEvent]

    /// Creates a trace.
    package init(lanes: [Lane], events: [TraceEvent] = []) {
        self.lanes = lanes
        self.events = events
    }
}

/// One event of a run.
public struct TraceEvent: Codable, Hashable, Sendable {
    /// The kind of event.
    public enum Kind: Codable, Hashable, Sendable {
        /// A step starts on this lane: `buys com.example.3months as t1`.
        case begun(step: Int, String)
        /// A step ends with a result.
        case ended(step: Int, String, isFailure: Bool)
        /// A message leaves this lane. Ids are unique in a run. Each message is followed by one `arrived` or `lost`,
        /// or by several `arrived` if the network duplicated it.
        case sent(message: Int, to: Int, String)
        /// A message arrives on this lane.
        case arrived(message: Int, String)
        /// A message never arrives.
        case lost(message: Int, String)
        /// A process on this lane starts.
        case started(process: Int)
        /// A process on this lane crashes.
        case crashed(process: Int)
        /// This lane has a fault from now until `until` (milliseconds since the start of the run).
        case disturbed(Disturbance, until: Int64, String)
        /// The expiry that this replica derives for a group (milliseconds since 1970 UTC; `nil` for none), and the
        /// group's state.
        case believes(group: String, expires: Int64?, isActive: Bool)
        /// A clock was moved by this many milliseconds.
        case clockMoved(by: Int64)
        /// The contents of a store were replaced.
        case storeChanged(String)
        /// Faults are over.
        case healed
        /// An oracle was violated here.
        case violated(oracle: String, String)
        /// Any other remark.
        case note(String)
    }

    /// A fault that lasts for a while.
    public enum Disturbance: String, Codable, Hashable, Sendable {
        /// Messages from this lane are lost.
        case cutOutgoing
        /// Messages to this lane are lost.
        case cutIncoming
        /// The store is full.
        case full
        /// The clock is wrong.
        case wrongClock
    }

    /// The virtual time in milliseconds since the start of the run.
    public var at: Int64
    /// The index of the lane in ``Trace/lanes``.
    public var lane: Int
    /// The kind of event.
    public var kind: Kind

    /// Creates an event.
    package init(at: Int64, lane: Int, _ kind: Kind) {
        self.at = at
        self.lane = lane
        self.kind = kind
    }
}
