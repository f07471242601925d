import Foundation
import NIOCore
import NIOHTTP1

/// The choice of the answer to a request, without access to the connection.
struct Responder {
    let request: HTTPRequestHead
    let target: Target
    let faults: Faults
    let log: RequestLog

    private var validators: Validators {
        Validators(etag: faults.etag, lastModified: faults.lastModified)
    }

    func answer() -> Answer {
        let location = location
        if let status = faults.status, location == nil || !(300..<400).contains(status) {
            let isFit = (200..<300).contains(status) || status == 304
            return short(status, headers: isFit ? validatorFields : [])
        }
        if let location {
            return short(faults.status ?? 302, headers: [("Location", location)])
        }
        guard let (type, data) = resource() else { return short(404) }
        if validators.isUnmodified(for: request.headers), [.GET, .HEAD].contains(request.method) {
            return short(304, headers: validatorFields)
        }
        return content(type: type, data: data)
    }

    private func short(_ status: Int, headers: [(name: String, value: String)] = []) -> Answer {
        if faults.errorBody > 0 {
            let body = ByteBuffer(repeating: UInt8(ascii: "x"), count: faults.errorBody)
            return Answer(status: status, type: "text/plain", headers: headers, body: body)
        }
        return Answer(status: status, headers: headers, gzipped: faults.isGzipped)
    }

    private var location: String? {
        if faults.loops { return target.pathAndQuery }
        if faults.hops > 0 { return target.replacing("hops", by: faults.hops - 1) }
        return faults.redirect
    }

    private var validatorFields: [(name: String, value: String)] {
        [("ETag", validators.etagField), ("Last-Modified", validators.lastModified)]
            .compactMap { name, value in value.map { (name, $0) } }
    }

    private func resource() -> (type: String, data: Data)? {
        if let file = log.files["\(target.path)~\(faults.version)"] ?? log.files[target.path] {
            return ("application/octet-stream", file)
        }
        let steps = target.path.split(separator: "/", omittingEmptySubsequences: false)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        switch steps.count > 1 ? steps[1] : "" {
        case "bytes":
            // The limit prevents a typing error from using up the machine's memory.
            guard steps.count > 2, let size = Int(steps[2]), (0...(1 << 30)).contains(size) else {
                return nil
            }
            return ("application/octet-stream", FaultServer.body(of: target.path, size: size, version: faults.version))
        case "text":
            return ("text/plain; charset=utf-8", FaultServer.text(of: target.path))
        case "echo" where steps.count == 2:
            let headers = Dictionary(
                request.headers.map { ($0.name.lowercased(), $0.value) },
                uniquingKeysWith: { "\($0), \($1)" })
            return (try? encoder.encode(headers)).map { ("application/json", $0) }
        case "log" where steps.count == 2:
            let entries = log.requests.map { LogEntry($0, epoch: log.epoch) }
            return (try? encoder.encode(entries)).map { ("application/json", $0) }
        default:
            return nil
        }
    }

    private func content(type: String, data: Data) -> Answer {
        let body = ByteBuffer(bytes: faults.isGzipped ? Gzip.stored(data) : data)
        var headers = validatorFields
        if faults.isGzipped { headers.append(("Content-Encoding", "gzip")) }
        guard !faults.ignoresRange else {
            return Answer(status: 200, type: type, headers: headers, body: body)
        }
        headers.append(("Accept-Ranges", "bytes"))
        let size = body.readableBytes
        var range = ByteRange.whole
        if request.method == .GET, let field = request.headers.first(name: "Range"),
            faults.ignoresIfRange || validators.allowRange(for: request.headers)
        {
            if let status = faults.rangeStatus { return short(status) }
            range = ByteRange(field, size: size)
        }
        switch range {
        case .whole:
            return Answer(status: 200, type: type, headers: headers, body: body)
        case .unsatisfiable:
            return short(416, headers: [("Content-Range", "bytes */\(size)")])
        case .part(let range):
            let count = min(range.count, faults.piece ?? .max)
            let first = range.lowerBound + faults.rangeShift
            if faults.hasBareRanges { headers.removeAll { ["ETag", "Last-Modified"].contains($0.name) } }
            headers.append(
                ("Content-Range", "bytes \(first)-\(first + count - 1)/\(faults.rangeTotal ?? size)"))
            let part = body.getSlice(at: range.lowerBound, length: count) ?? ByteBuffer()
            let partType = faults.hasMultipartRanges ? "multipart/byteranges; boundary=x" : type
            return Answer(status: 206, type: partType, headers: headers, body: part)
        }
    }
}
