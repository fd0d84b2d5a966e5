#if PostgreSQL
import SyncCore
import Synchronization

// The checks that compare hosts, and the connections of one host.
extension Connector {
    /// The number of transactions after which a pooler must have changed the server's process.
    private static let poolerTrials = 3

    // MARK: Poolers

    /// Checks at the next connection that the pooler keeps one process of the server for it.
    func suspectPooler() { state.withLock { $0.trustedPoolers = [] } }

    /// Refuses a pooler that gives each transaction a connection of its own to the server: settings, prepared
    /// statements and locks of the session would belong to others.
    ///
    /// Two connections are used at once, and then one after the other. The pooler would give the second one the
    /// process that the first one has just left.
    func checkPooler(
        host number: Int, _ connection: Connection, until end: ContinuousClock.Instant
    ) throws(BackendError) {
        guard connection.announcedProcess != connection.process,
            !configuration.defects.contains(.durableBySession),
            !state.withLock({ $0.trustedPoolers.contains(number) })
        else { return }
        let other: Connection
        var processes = [connection.process]
        do throws(BackendError) {
            other = try connect(host: number, until: end)
            for connection in [connection, other] {
                if case .failure(let failure) = connection.run("BEGIN", until: end) {
                    // A pooler in the mode for single statements refuses it.
                    guard failure.sqlState?.hasPrefix("08") != true else { throw BackendError(behindPooler: label) }
                    throw self.error(failure)
                }
                processes.append(try get(connection.ask("SELECT pg_backend_pid()", until: end)).integer(0, 0))
            }
        } catch {
            guard error.disposition == .transient else { throw error }
            throw BackendError(
                .unavailable, operation: .open,
                message: "\(label): the pooler gave no second connection in time; raise its pool size to 10 for each "
                    + "server of this program")
        }
        for connection in [other, connection] { try get(connection.run("COMMIT", until: end)) }
        var isKept = processes[0] == processes[1]
        for _ in 0..<Self.poolerTrials {
            for (connection, process) in zip([other, connection], [processes[2], processes[1]]) {
                let rows = try get(connection.ask("SELECT pg_backend_pid()", until: end))
                isKept = isKept && rows.integer(0, 0) == process
            }
        }
        guard isKept else { throw BackendError(behindPooler: label) }
        state.withLock { _ = $0.trustedPoolers.insert(number) }
    }

    // MARK: Timelines

    /// Refuses a former primary, and records the timeline of `connection`.
    ///
    /// The first time, all other hosts are asked as well: a process that was just started knows no timeline.
    func checkTimeline(
        host number: Int, _ connection: Connection, until end: ContinuousClock.Instant
    ) throws(BackendError) {
        // A server that is not PostgreSQL's own may lack these functions.
        guard case .success(let rows) = connection.ask(Timeline.query, until: end) else {
            if connection.isLost { throw error(TransactionFailure(message: connection.message, isLost: true)) }
            return
        }
        if let timeline = Timeline(rows) { note(timeline, of: number) }
        let isFirst = state.withLock { state in
            defer { state.isSurveyed = true }
            return !state.isSurveyed
        }
        if isFirst { for other in pulses.indices where other != number { _ = ask(host: other, over: nil) } }
        guard pulses[number].isFormerPrimary else { return }
        throw BackendError(
            .unavailable, operation: .open,
            message: "\(label): the server is a former primary, because another host has a later timeline; shut it "
                + "down, and make it a standby of the new primary")
    }

    /// Records that a host accepts writes on `timeline`. Its connections, or those to another host, end if the other
    /// one has a later timeline of the same cluster.
    func note(_ timeline: Timeline, of number: Int) {
        state.withLock { state in
            state.timelines[number] = timeline
            state.newest[timeline.cluster] = max(timeline.number, state.newest[timeline.cluster] ?? 0)
            for (host, known) in state.timelines {
                pulses[host].setFormerPrimary(known.number < state.newest[known.cluster] ?? 0)
            }
        }
    }

    // MARK: The watch

    /// The error for jobs that wait while the preferred host does not answer; `nil` if it does.
    var silence: BackendError? {
        guard pulses[state.withLock { $0.preferred }].isSilent else { return nil }
        return BackendError(
            .unavailable, operation: .open, disposition: .transient,
            message: "\(label): the server does not answer; check its machine, its disk and the network")
    }

    /// Asks a host for its timeline, and records the answer, or that there was none.
    ///
    /// - Parameter connection: The connection of the last time.
    /// - Returns: The connection for the next time; `nil` if it failed.
    func ask(host number: Int, over connection: Connection?) -> Connection? {
        let end = ContinuousClock().now + min(HostPulse.silence, configuration.connectTimeout)
        var connection = connection
        do throws(BackendError) {
            let open: Connection
            if let connection, !connection.isLost {
                open = connection
            } else {
                open = try connect(host: number, isWatch: true, until: end)
            }
            connection = open
            let rows = try get(open.ask(Timeline.query, until: end))
            pulses[number].hear()
            if let timeline = Timeline(rows) { note(timeline, of: number) }
            return open
        } catch {
            if ContinuousClock().now >= end { pulses[number].miss() }
            return connection?.isLost == false ? connection : nil
        }
    }
}
#endif
