package import FileWatching

/// The system calls of the file store. A test replaces them to cut the power at any of them.
///
/// Every call is synchronous, may be made from any thread, and either succeeds completely or throws. Paths may be
/// longer than the system's `PATH_MAX`.
package protocol FileSystem: Sendable {
    /// Opens `path`.
    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> OpenFile
    /// Closes the file. It reports no error, because all important data was synced before.
    func close(_ file: OpenFile)
    /// Reads at `offset` until `buffer` is full or the file ends; returns the number of bytes.
    func read(_ file: OpenFile, into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(FileSystemError)
        -> Int
    /// Writes all of `bytes` at `offset`.
    func write(_ file: OpenFile, _ bytes: UnsafeRawBufferPointer, at offset: Int) throws(FileSystemError)
    /// Returns when the content of the file, or the names in the folder, would survive a power cut.
    func synchronize(_ file: OpenFile) throws(FileSystemError)
    /// Takes the exclusive advisory lock of the file, which ends with the descriptor; `false` if another descriptor has
    /// it.
    func tryLock(_ file: OpenFile) throws(FileSystemError) -> Bool
    /// The size of the file in bytes.
    func byteCount(of file: OpenFile) throws(FileSystemError) -> Int
    /// The identity of the open file.
    func identity(of file: OpenFile) throws(FileSystemError) -> FileIdentity
    /// The identity of the file at `path`.
    func identity(at path: String) throws(FileSystemError) -> FileIdentity
    /// Renames the file to `target` in one atomic step, replacing an existing file. Both names are in one folder.
    func rename(_ source: String, to target: String) throws(FileSystemError)
    /// Removes the name of a file.
    func removeFile(_ path: String) throws(FileSystemError)
    /// Creates a folder whose parent exists.
    func createFolder(_ path: String) throws(FileSystemError)
    /// The names in a folder, in no particular order, without `.` and `..`.
    func names(inFolder path: String) throws(FileSystemError) -> [String]
}

/// The purpose for which a file is opened.
///
/// Only regular files and folders are opened; anything else is ``FileSystemError/notRegular``. A symbolic link as the
/// last name of the path is followed only for ``folder``. Opening a pipe does not wait for its other end.
package enum OpenMode: Sendable {
    /// An existing file, for reading.
    case read
    /// A new file, for writing. It must not exist yet.
    case createNew
    /// A file for reading, writing and locking. It is created if it does not exist.
    case createShared
    /// An existing file, for reading, writing and locking.
    case shared
    /// A folder, for syncing, listing or locking.
    case folder
    /// A folder whose last name must not be a symbolic link.
    case plainFolder
}

/// An open file, with its path for error messages.
package struct OpenFile: Sendable {
    /// The file descriptor.
    package let descriptor: Int32
    /// The path with which it was opened.
    package let path: String

    package init(descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }
}

/// The identity of a file, independent of its name.
package typealias FileIdentity = PathWatch.Identity

/// The error of a failed system call.
package struct FileSystemError: Error, Hashable, CustomStringConvertible {
    /// The name of the system call.
    package let call: String
    /// The path or file of the call.
    package let path: String
    /// The system's error number.
    package let code: Int32

    /// The `code` for an object that is neither a regular file nor a folder, such as a pipe or device. It is not an
    /// `errno`.
    package static let notRegular: Int32 = -1

    package init(call: String, path: String, code: Int32) {
        self.call = call
        self.path = path
        self.code = code
    }

    /// The call and the system's message for the error.
    package var description: String {
        "\(call): \(code == Self.notRegular ? "Not a regular file" : systemMessage(code))"
    }
}

extension FileSystem {
    /// Opens `path` while `body` runs.
    func withFile<Result>(
        _ path: String, _ mode: OpenMode, _ body: (OpenFile) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let file = try open(path, mode)
        defer { close(file) }
        return try body(file)
    }

    /// Syncs the names in a folder.
    func synchronizeFolder(_ path: String) throws(FileSystemError) {
        try withFile(path, .folder) { (folder) throws(FileSystemError) in try synchronize(folder) }
    }

    /// Reads at most `limit` bytes of the file, from `offset`.
    func bytes(of file: OpenFile, from offset: Int = 0, limit: Int) throws(FileSystemError) -> [UInt8] {
        // With a capacity of zero, the standard library writes to the empty array that all threads share.
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
