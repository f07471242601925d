import Foundation
import WriteLog

/// A change in the recorded folder. Numbers identify files and folders; the recorded folder is 1.
enum Step: Codable {
    case create(file: Int, Place)
    case makeFolder(folder: Int, Place)
    case unlink(file: Int, Place)
    case removeFolder(folder: Int, Place)
    case rename(object: Int, Place, to: Place)
    case write(file: Int, offset: Int, Data)
    case truncate(file: Int, size: Int)
    /// A flush: all earlier changes of the file, or of the folder's entries, are on the device.
    case flush(object: Int)
    /// A note of the workload, by its number.
    case mark(Int)

    struct Place: Codable, Hashable {
        var folder: Int
        var name: String
    }

    var folders: [Int] {
        switch self {
        case .create(_, let place), .makeFolder(_, let place), .unlink(_, let place), .removeFolder(_, let place):
            [place.folder]
        case .rename(_, let from, let to): [from.folder, to.folder]
        default: []
        }
    }

    var writtenFile: Int? {
        switch self {
        case .write(let file, _, _), .truncate(let file, _): file
        default: nil
        }
    }
}

/// A file-changing call that the model does not support.
struct UnknownCall: Error {
    let name: String
}

extension Step {
    init(_ step: write_log_step) throws {
        let name = step.name.map { String(cString: $0) } ?? "?"
        let place = Place(folder: Int(step.folder), name: name)
        let object = Int(step.object)
        switch step.kind {
        case WRITE_LOG_CREATE: self = .create(file: object, place)
        case WRITE_LOG_MAKE_FOLDER: self = .makeFolder(folder: object, place)
        case WRITE_LOG_UNLINK: self = .unlink(file: object, place)
        case WRITE_LOG_REMOVE_FOLDER: self = .removeFolder(folder: object, place)
        case WRITE_LOG_RENAME:
            let other = step.other_name.map { String(cString: $0) } ?? ""
            self = .rename(object: object, place, to: Place(folder: Int(step.other_folder), name: other))
        case WRITE_LOG_WRITE:
            self = .write(file: object, offset: Int(step.offset), Data(bytes: step.bytes, count: step.size))
        case WRITE_LOG_TRUNCATE: self = .truncate(file: object, size: Int(step.offset))
        case WRITE_LOG_FLUSH: self = .flush(object: object)
        case WRITE_LOG_MARK: self = .mark(Int(step.offset))
        default: throw UnknownCall(name: name)
        }
    }
}
