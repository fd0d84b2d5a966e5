import Foundation
package import Logging
import Subprocess

#if canImport(System)
import System
#else
import SystemPackage
#endif

/// A program that gets each event as one line of JSON on standard input, one event at a time.
///
/// It runs without a shell, with an empty environment apart from `PATH`, in `/`, without open files, and in a session
/// of its own. The event counts as taken once the program exits with 0. Otherwise it is run again with growing pauses,
/// and after ``maximumAttempts`` the event is skipped.
package struct EventProgram: Sendable {
    private let path: String
    private let timeLimit: Duration
    private let logger: Logger

    static let maximumAttempts = 10

    /// - Parameters:
    ///   - path: The absolute path of the program.
    ///   - timeLimit: The time after which the program and its children are ended.
    /// - Throws: ``AgentError`` if the path is not absolute, or if other users may change or replace the program.
    package init(path: String, timeLimit: Duration, logger: Logger) throws(AgentError) {
        (self.path, self.timeLimit, self.logger) = (path, timeLimit, logger)
        guard path.hasPrefix("/") else {
            throw AgentError(.unsafe, "the program needs an absolute path, not \"\(path)\"")
        }
        try check()
    }

    /// Throws unless the program may be run, and only root and this user may change or replace it.
    private func check() throws(AgentError) {
        let status = try Self.status(of: path)
        guard status.st_mode & S_IFMT == S_IFREG, access(path, X_OK) == 0 else {
            throw AgentError(.unsafe, "\(path) is not a program that may be run: chmod +x \(path)")
        }
        guard status.st_uid == 0 || status.st_uid == geteuid(), status.st_mode & 0o022 == 0 else {
            throw AgentError(
                .unsafe,
                "\(path): others may change this program: give it to root or to yourself, and chmod go-w \(path)")
        }
        // A user with write access to a folder on the way could put another program in its place.
        let resolved = realpath(path, nil)
        defer { free(resolved) }
        for folder in Set(Self.folders(of: path) + (resolved.map { Self.folders(of: String(cString: $0)) } ?? []))
            .sorted()
        {
            let status = try Self.status(of: folder)
            let isSticky = status.st_mode & S_ISVTX != 0
            guard status.st_uid == 0 || status.st_uid == geteuid(), isSticky || status.st_mode & 0o022 == 0 else {
                throw AgentError(
                    .unsafe,
                    "\(path): others may replace this program: give \(folder) to root or to yourself, and "
                        + "chmod go-w \(folder)")
            }
        }
    }

    private static func status(of path: String) throws(AgentError) -> stat {
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw AgentError(.unsafe, "\(path): \(String(cString: strerror(errno)))")
        }
        return status
    }

    /// The folders that lead to an absolute path, `/` included.
    private static func folders(of path: String) -> [String] {
        let names = path.split(separator: "/").dropLast()
        return names.indices.map { "/" + names[...$0].joined(separator: "/") } + ["/"]
    }

    /// Runs the program for each event of `feed` that it has not taken, until the task is cancelled.
    package func run(_ feed: EventFeed) async {
        var signals = feed.signals().makeAsyncIterator()
        while !Task.isCancelled {
            while let event = await feed.nextUndelivered, !Task.isCancelled {
                guard await deliver(event) else { return }
                await feed.deliver(event.number)
            }
            guard await signals.next() != nil else { return }
        }
    }

    /// Returns `false` if the task was cancelled before the program has taken the event.
    private func deliver(_ event: EventLog.Event) async -> Bool {
        for attempt in 1...Self.maximumAttempts {
            let failure = await run(event)
            // The program may have been ended, so it gets the event again at the next start.
            if Task.isCancelled { return false }
            guard let failure else { return true }
            logger.warning("\(path): \(failure), attempt \(attempt) for event \(event.number) (\(event.kind))")
            guard attempt < Self.maximumAttempts else { break }
            do { try await ContinuousClock().sleep(for: .seconds(min(1 << (attempt - 1), 60))) } catch { return false }
        }
        logger.error("\(path): event \(event.number) (\(event.kind)) is skipped")
        return true
    }

    /// The reason why the program has not taken the event; `nil` if it has.
    private func run(_ event: EventLog.Event) async -> String? {
        await withTaskGroup(of: String?.self) { group in
            group.addTask { await execute(event) }
            group.addTask { [timeLimit] in
                do { try await ContinuousClock().sleep(for: timeLimit) } catch { return nil }
                return "it ran for more than \(timeLimit.components.seconds) s and was ended"
            }
            let first = await group.next() ?? nil
            // Cancels the sleep, or ends the program.
            group.cancelAll()
            await group.waitForAll()
            return first
        }
    }

    private func execute(_ event: EventLog.Event) async -> String? {
        do throws(AgentError) { try check() } catch { return error.description }
        var options = PlatformOptions()
        options.createSession = true
        options.teardownSequence = [
            .gracefulShutDown(toProcessGroup: true, allowedDurationToNextStep: .seconds(2)),
            .send(signal: .kill, toProcessGroup: true, allowedDurationToNextStep: .seconds(1)),
        ]
        do {
            let result = try await Subprocess.run(
                .path(FilePath(path)), environment: .custom(["PATH": "/usr/local/bin:/usr/bin:/bin"]),
                workingDirectory: "/", platformOptions: options, input: .inputWriter, output: .discarded,
                error: .discarded
            ) { execution in
                // A program may end without reading its input. Only its exit status counts.
                _ = try? await execution.standardInputWriter.write(event.json + "\n")
                try? await execution.standardInputWriter.finish()
            }
            switch result.terminationStatus {
            case .exited(0): return nil
            case .exited(let code): return "it exited with \(code)"
            default: return "it was ended by a signal"
            }
        } catch {
            return "it cannot be run: \(error)"
        }
    }
}
