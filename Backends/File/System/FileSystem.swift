/// The system calls that the file store makes, which a test replaces to cut the power at any of them.
///
/// Every call is synchronous, may be made from any thread, and either did what it says or throws. Paths may be longer
/// than the system's `PATH_MAX`.
package protocol FileSystem: Sendable {
    /// Opens `path`.
    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> OpenFile
    /// Gives the descriptor back. Whatever matters was synchronised before, so there is nothing to report.
    func close(_ file: OpenFile)
    /// Reads at `offset` until `buffer` is full or the file ends; answers how many bytes it read.
    func read(_ file: OpenFile, into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(FileSystemError)
        -> Int
    /// Writes all of `bytes` at `offset`.
    func write(_ file: OpenFile, _ bytes: UnsafeRawBufferPointer, at offset: Int) throws(FileSystemError)
    /// Returns when the file's content, or the folder's names, would survive a power cut.
    func synchronize(_ file: OpenFile) throws(FileSystemError)
    /// Takes the exclusive advisory lock of the file, which ends with the descriptor; `false` when another has it.
    func tryLock(_ file: OpenFile) throws(FileSystemError) -> Bool
    /// How many bytes the file has.
    func byteCount(of file: OpenFile) throws(FileSystemError) -> Int
    /// Which file is open.
    func identity(of file: OpenFile) throws(FileSystemError) -> FileIdentity
    /// Which file `path` names.
    func identity(at path: String) throws(FileSystemError) -> FileIdentity
    /// Gives the file the name `target` in one atomic step, replacing what had it. Both are in one folder.
    func rename(_ source: String, to target: String) throws(FileSystemError)
    /// Removes the name of a file.
    func removeFile(_ path: String) throws(FileSystemError)
    /// Makes a folder whose parent exists.
    func createFolder(_ path: String) throws(FileSystemError)
    /// The names in a folder, in no order, without `.` and `..`.
    func names(inFolder path: String) throws(FileSystemError) -> [String]
}

/// What a file is opened for.
///
/// Only regular files and folders are opened. The last name of the path is not followed if it is a symbolic link, but
/// for a ``folder``'s, and nothing waits for the other end of a pipe: whatever else stands there is
/// ``FileSystemError/notRegular``.
package enum OpenMode: Sendable {
    /// An existing file, to read.
    case read
    /// A file that must not exist yet, to write.
    case createNew
    /// A file to read, write and lock, made when it is missing.
    case createShared
    /// An existing file to read, write and lock.
    case shared
    /// A folder, to synchronise, list or lock.
    case folder
    /// A folder, unless the last name of its path is a symbolic link.
    case plainFolder
}

/// An open file, with its path for messages.
package struct OpenFile: Sendable {
    /// The system's descriptor.
    package let descriptor: Int32
    /// Where it was opened.
    package let path: String

    package init(descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }
}

/// The identity of a file, whatever its name.
package struct FileIdentity: Hashable, Sendable {
    /// The device that the file is on.
    package let device: UInt64
    /// The file's number on that device.
    package let number: UInt64

    package init(device: UInt64, number: UInt64) {
        self.device = device
        self.number = number
    }
}

/// A system call failed.
package struct FileSystemError: Error, Hashable, CustomStringConvertible {
    /// The system call's name.
    package let call: String
    /// What it was about.
    package let path: String
    /// The system's error number.
    package let code: Int32

    /// The `code` for a file that is neither regular nor a folder: a pipe, a device. No system call's.
    package static let notRegular: Int32 = -1

    package init(call: String, path: String, code: Int32) {
        self.call = call
        self.path = path
        self.code = code
    }

    /// The call and the system's words for the error.
    package var description: String {
        "\(call): \(code == Self.notRegular ? "Not a regular file" : systemMessage(code))"
    }
}

extension FileSystem {
    /// Opens `path` for the time of `body`.
    func withFile<Result>(
        _ path: String, _ mode: OpenMode, _ body: (OpenFile) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let file = try open(path, mode)
        defer { close(file) }
        return try body(file)
    }

    /// Synchronises the names in a folder.
    func synchronizeFolder(_ path: String) throws(FileSystemError) {
        try withFile(path, .folder) { (folder) throws(FileSystemError) in try synchronize(folder) }
    }

    /// The bytes of the file from `offset` on, at most `limit`.
    func bytes(of file: OpenFile, from offset: Int = 0, limit: Int) throws(FileSystemError) -> [UInt8] {
        // The standard library writes to the empty array that all threads share when it makes one of no capacity.
        guard limit > 0 else { return [] }
        var result: Result<Int, FileSystemError> = .success(0)
        let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            result = Result { () throws(FileSystemError) in
                try read(file, into: UnsafeMutableRawBufferPointer(buffer), at: offset)
            }
            if case .success(let read) = result { count = read }
        }
        _ = try result.get()
        return bytes
    }

    /// Writes all of `bytes` at `offset` of the file.
    func write(_ file: OpenFile, _ bytes: [UInt8], at offset: Int = 0) throws(FileSystemError) {
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(FileSystemError) in try write(file, buffer, at: offset) }
        }.get()
    }
}
