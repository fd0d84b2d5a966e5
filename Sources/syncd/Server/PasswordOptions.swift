import ArgumentParser
import Entitlements
import Foundation

/// Where passwords and codes come from: never from an argument, which everybody on the machine can read.
struct PasswordOptions: ParsableArguments {
    @Flag(help: "Read the password from standard input, a line; of several each on its own, in the order asked for.")
    var passwordStdin = false

    /// Something that is asked for.
    struct Secret {
        var question: String
        var variable: String
        /// Whether it is new, and has to be typed twice.
        var isNew = false

        static func password(of name: String) -> Secret {
            Secret(question: "Password of \(name.singleLine)", variable: "SYNCD_PASSWORD")
        }

        static func newPassword(of name: String, variable: String = "SYNCD_NEW_PASSWORD") -> Secret {
            Secret(question: "New password of \(name.singleLine)", variable: variable, isNew: true)
        }

        static func recoveryCode(of name: String) -> Secret {
            Secret(question: "Recovery code of \(name.singleLine)", variable: "SYNCD_RECOVERY_CODE")
        }
    }

    /// Whether the caller has said where they come from, so that nobody has to be asked.
    var isGiven: Bool { passwordStdin || environmentVariable(Secret.password(of: "").variable) != nil }

    /// Reads them: from standard input, the environment, or a person at a terminal.
    func read(_ secrets: Secret...) throws(Failure) -> [String] {
        var values: [String] = []
        for secret in secrets { values.append(try read(secret)) }
        return values
    }

    private func read(_ secret: Secret) throws(Failure) -> String {
        if passwordStdin {
            guard let line = readLine(strippingNewline: true), !line.isEmpty else {
                throw Failure(.usage, "--password-stdin: standard input has no line for: \(secret.question)")
            }
            return line
        }
        if let value = environmentVariable(secret.variable) { return value }
        guard isatty(STDIN_FILENO) == 1 else {
            throw Failure(
                .usage, "\(secret.question) is needed: --password-stdin, or \(secret.variable) in the environment")
        }
        let answer = try ask(secret.question)
        if secret.isNew, try ask("\(secret.question), once more") != answer {
            throw Failure(.usage, "the two are not the same; nothing was done")
        }
        return answer
    }

    /// Asks at the terminal, which shows nothing of the answer. Keys that end a program are read as any other, so that
    /// the terminal shows again what is typed when this returns.
    private func ask(_ question: String) throws(Failure) -> String {
        FileHandle.standardError.write(Data("\(question): ".utf8))
        var shown = termios()
        guard tcgetattr(STDIN_FILENO, &shown) == 0 else { throw Failure(.failed, "the terminal cannot hide an answer") }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO | ISIG)
        // Control-C ends the line, and shows below.
        withUnsafeMutableBytes(of: &hidden.c_cc) { $0[Int(VEOL)] = 3 }
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0 else {
            throw Failure(.failed, "the terminal cannot hide an answer")
        }
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = Foundation.read(STDIN_FILENO, &buffer, buffer.count)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
        FileHandle.standardError.write(Data("\n".utf8))
        let answer = buffer.prefix(max(count, 0)).prefix { $0 != UInt8(ascii: "\n") }
        guard !answer.isEmpty, !answer.contains(where: { $0 < 0x20 }),
            let line = String(validating: answer, as: UTF8.self)
        else { throw Failure(.usage, "no answer; nothing was done") }
        return line
    }
}
