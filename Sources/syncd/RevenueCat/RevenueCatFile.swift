import Entitlements
import SyncService

/// Reads the transactions of a file piece by piece: answers of the v1 API as JSON, or the transactions export as CSV.
struct RevenueCatFile {
    /// A transaction, or the reason for which it cannot be read, with its line.
    typealias Item = (line: Int, result: Result<RevenueCatTransaction, InputError>)

    /// The size of the file, in bytes.
    let size: Int
    private var form: Form

    private enum Form {
        case json(ExportReader)
        case csv(CSVReader, RevenueCatColumns)
    }

    /// The number of bytes that were read.
    var byteCount: Int {
        switch form {
        case .json(let reader): reader.byteCount
        case .csv(let reader, _): reader.byteCount
        }
    }

    init(_ path: String) throws {
        let file = try FilePieces(path)
        var first: [UInt8]? = try file.next()
        let start = first ?? []
        if start.starts(with: [0x1F, 0x8B]) {
            throw Failure(.failed, "\(path) is compressed: unpack it first, with gunzip")
        }
        if start.starts(with: Array("PAR1".utf8)) {
            throw Failure(.failed, "\(path) is a Parquet file: choose CSV for the export")
        }
        func next() throws -> [UInt8] {
            defer { first = nil }
            return try first ?? file.next()
        }
        size = file.byteCount
        let text = start.drop { [0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        if text.first == UInt8(ascii: "{") || text.first == UInt8(ascii: "[") {
            form = .json(ExportReader(maySpanLines: true, next))
        } else {
            let reader = try CSVReader(next)
            form = .csv(reader, try RevenueCatColumns(reader.columns))
        }
    }

    /// The next transactions; `nil` at the end.
    ///
    /// - Throws: `InputError` for a file that is cut off or is no such file.
    mutating func next() throws -> [Item]? {
        switch form {
        case .json(var reader):
            let object = try reader.next()
            form = .json(reader)
            guard let object else { return nil }
            do throws(InputError) {
                return try RevenueCatTransaction.all(in: object.value).map { (object.line, .success($0)) }
            } catch {
                return [(object.line, .failure(error))]
            }
        case .csv(var reader, let columns):
            let record = try reader.next()
            form = .csv(reader, columns)
            guard let record else { return nil }
            do throws(InputError) { return [(record.line, .success(try columns.transaction(record.values)))] } catch {
                return [(record.line, .failure(error))]
            }
        }
    }
}
