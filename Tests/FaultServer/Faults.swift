import NIOCore

/// The faults that the query of a request asks for.
///
/// All parameters can be combined; unknown ones are ignored. A value that makes no sense is answered with 400, so that
/// a mistake in a test is noticed.
///
/// | parameter | effect |
/// |---|---|
/// | `delay=MS` | waits before the head |
/// | `status=N` | answers status N (200–599) with a short body |
/// | `errorBody=BYTES` | the size of the body of `status`, a redirect, a 404 or a 416 |
/// | `times=N` | `status`, `cut`, `reset`, `stall`, `length` and `close` apply only to the first N requests of the same target |
/// | `cut=BYTES` | sends the right Content-Length, but closes after BYTES bytes of the body |
/// | `reset=BYTES` | like `cut`, but resets the TCP connection once the client's kernel has those bytes (or after 2 s) |
/// | `length=N` | sends Content-Length N and the true body, then closes; overrides `chunked` |
/// | `stall=BYTES` | sends the right Content-Length, but nothing more after BYTES bytes |
/// | `drip=BYTES,MS` | sends the body in pieces of BYTES bytes, one every MS milliseconds |
/// | `chunked=1` | sends the body in chunks, without Content-Length |
/// | `close=1` | sends neither Content-Length nor chunks: the body ends with the connection; overrides `length` and `chunked` |
/// | `noanswer=1` | never answers |
/// | `redirect=TARGET` | answers 302 with the location |
/// | `hops=N` | redirects N times to itself with a decreasing counter, then answers as the other parameters say |
/// | `loop=1` | redirects to itself forever |
/// | `retryAfter=VALUE` | Retry-After |
/// | `etag=TAG` | ETag `"TAG"` (`W/TAG`: weak); 304 to that If-None-Match |
/// | `cacheControl=VALUE` | Cache-Control |
/// | `gzip=1` | codes the body with gzip, whatever Accept-Encoding says; ranges select coded bytes |
/// | `norange=1` | ignores Range |
/// | `piece=BYTES` | answers a Range with at most BYTES bytes |
/// | `rangeShift=N` | `Content-Range` names a range N bytes after the range of the bytes sent |
/// | `rangeTotal=N` | `Content-Range` names N as the total |
/// | `header=Name:Value` | one more header line, repeatable |
///
/// Values are percent-decoded; `+` is a plus.
struct Faults: Sendable {
    struct BadParameter: Error {
        let text: String
    }

    var delay = 0
    var status: Int?
    var errorBody = 0
    var times: Int?
    var cut: Int?
    var reset: Int?
    var stall: Int?
    var length: Int?
    /// Bytes, and the time between them in milliseconds.
    var drip: (bytes: Int, interval: Int)?
    var isChunked = false
    var closes = false
    var isSilent = false
    var location: String?
    var retryAfter: String?
    var etag: String?
    var cacheControl: String?
    var isGzipped = false
    var ignoresRange = false
    var piece: Int?
    var rangeShift = 0
    var rangeTotal: Int?
    var headers: [(name: String, value: String)] = []

    init() {}

    /// - Parameters:
    ///   - target: the path and query as sent.
    ///   - ordinal: the number of the request among those of its target, from 1.
    init(_ target: String, ordinal: Int) throws(BadParameter) {
        for parameter in target.drop(while: { $0 != "?" }).dropFirst().split(separator: "&") {
            let pair = parameter.split(separator: "=", maxSplits: 1).map(String.init)
            let value = pair.count > 1 ? pair[1].removingPercentEncoding ?? pair[1] : ""
            let number = Int(value)
            var isFit = number ?? -1 >= 0
            switch pair.first {
            case "delay": delay = number ?? 0
            case "status":
                status = number
                isFit = (200...599).contains(number ?? 0)
            case "errorBody": errorBody = number ?? 0
            case "times": times = number
            case "cut": cut = number
            case "stall": stall = number
            case "reset": reset = number
            case "length": length = number
            case "chunked": isChunked = value == "1"
            case "close": closes = value == "1"
            case "noanswer": isSilent = value == "1"
            case "loop": location = target
            case "hops":
                if let number, number > 0 {
                    location = target.replacingOccurrences(of: "hops=\(number)", with: "hops=\(number - 1)")
                }
            case "gzip": isGzipped = value == "1"
            case "norange": ignoresRange = value == "1"
            case "piece": piece = number
            case "rangeShift": rangeShift = number ?? 0
            case "rangeTotal": rangeTotal = number
            case "drip":
                let numbers = value.split(separator: ",").compactMap { Int($0) }
                isFit = numbers.count == 2 && numbers[0] > 0
                if isFit { drip = (numbers[0], numbers[1]) }
            case "header":
                let parts = value.split(separator: ":", maxSplits: 1).map(String.init)
                isFit = parts.count == 2
                if isFit { headers.append((parts[0], String(parts[1].drop { $0 == " " }))) }
            case "redirect": (location, isFit) = (value, true)
            case "retryAfter": (retryAfter, isFit) = (value, true)
            case "etag": (etag, isFit) = (value.hasPrefix("W/") ? "W/\"\(value.dropFirst(2))\"" : "\"\(value)\"", true)
            case "cacheControl": (cacheControl, isFit) = (value, true)
            default: isFit = true
            }
            if !isFit { throw BadParameter(text: "\(parameter) makes no sense") }
        }
        if let times, ordinal > times { (status, cut, reset, stall, length, closes) = (nil, nil, nil, nil, nil, false) }
    }
}
