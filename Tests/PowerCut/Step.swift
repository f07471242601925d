import Foundation
import WriteLog

/// A change in the recorded folder. Files and folders are known by numbers; the recorded folder is 1.
enum Step: Codable {
    case create(file: Int, Place)
    case makeFolder(folder: Int, Place)
    case unlink(file: Int, Place)
    case removeFolder(folder: Int, Place)
    case rename(object: Int, Place, to: Place)
    case write(file: Int, offset: Int, Data)
    case truncate(file: Int, size: Int)
    /// All that was done to the file, or to the entries of the folder, is on the device.
    case flush(object: Int)
    /// A note of the workload's, by its number.
    case mark(Int)

    struct Place: Codable, Hashable {
        var folder: Int
        var name: String
    }

    /// The folders whose entries it changes.
    var folders: [Int] {
        switch self {
        case .create(_, let place), .makeFolder(_, let place), .unlink(_, let place), .removeFolder(_, let place):
            [place.folder]
        case .rename(_, let from, let to): [from.folder, to.folder]
        default: []
        }
    }

    /// The file whose bytes it changes.
    var writtenFile: Int? {
        switch self {
        case .write(let file, _, _), .truncate(let file, _): file
        default: nil
        }
    }
}

/// A call that changes files and that the model does not know.
struct UnknownCall: Error {
    let name: String
}

extension Step {
    init(_ step: write_log_step) throws {
        func place() -> Place { Place(folder: Int(step.folder), name: step.name.map { String(cString: $0) } ?? "") }
        let object = Int(step.object)
        switch step.kind {
        case WRITE_LOG_CREATE: self = .create(file: object, place())
        case WRITE_LOG_MAKE_FOLDER: self = .makeFolder(folder: object, place())
        case WRITE_LOG_UNLINK: self = .unlink(file: object, place())
        case WRITE_LOG_REMOVE_FOLDER: self = .removeFolder(folder: object, place())
        case WRITE_LOG_RENAME:
            let name = step.other_name.map { String(cString: $0) } ?? ""
            self = .rename(object: object, place(), to: Place(folder: Int(step.other_folder), name: name))
        case WRITE_LOG_WRITE:
            self = .write(file: object, offset: Int(step.offset), Data(bytes: step.bytes, count: step.size))
        case WRITE_LOG_TRUNCATE: self = .truncate(file: object, size: Int(step.offset))
        case WRITE_LOG_FLUSH: self = .flush(object: object)
        case WRITE_LOG_MARK: self = .mark(Int(step.offset))
        default: throw UnknownCall(name: step.name.map { String(cString: $0) } ?? "?")
        }
    }
}
