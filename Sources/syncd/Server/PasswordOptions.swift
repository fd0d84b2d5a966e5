import ArgumentParser
import Entitlements
import Foundation

/// The source of passwords and codes. They are never passed as arguments, which every user of the machine can read.
struct PasswordOptions: ParsableArguments {
    @Flag(help: "Read passwords and codes from standard input, one on each line, in the order of the prompts.")
    var passwordStdin = false

    /// A password or code to read.
    struct Secret {
        var question: String
        var variable: String
        /// `true` for a new password, which is typed twice.
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

    /// `true` if the password comes from standard input or the environment, without a prompt.
    var isGiven: Bool { passwordStdin || environmentVariable(Secret.password(of: "").variable) != nil }

    /// Reads secrets from standard input, the environment, or a prompt at the terminal.
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
            throw Failure(.usage, "\(secret.question) is required: pass --password-stdin or set \(secret.variable)")
        }
        let answer = try ask(secret.question)
        if secret.isNew, try ask("\(secret.question), again") != answer {
            throw Failure(.usage, "the passwords differ; nothing was changed")
        }
        return answer
    }

    /// Prompts at the terminal without echo. Keys that usually end a program are read as input, so that the echo is
    /// always switched on again.
    private func ask(_ question: String) throws(Failure) -> String {
        FileHandle.standardError.write(Data("\(question): ".utf8))
        var shown = termios()
        let cannotHide = Failure(.failed, "the terminal cannot hide the input: pass --password-stdin")
        guard tcgetattr(STDIN_FILENO, &shown) == 0 else { throw cannotHide }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO | ISIG)
        // Control-C ends the line and is rejected below.
        withUnsafeMutableBytes(of: &hidden.c_cc) { $0[Int(VEOL)] = 3 }
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0 else { throw cannotHide }
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = Foundation.read(STDIN_FILENO, &buffer, buffer.count)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
        FileHandle.standardError.write(Data("\n".utf8))
        let answer = buffer.prefix(max(count, 0)).prefix { $0 != UInt8(ascii: "\n") }
        guard !answer.isEmpty, !answer.contains(where: { $0 < 0x20 }),
            let line = String(validating: answer, as: UTF8.self)
        else { throw Failure(.usage, "no input; nothing was changed") }
        return line
    }
}
