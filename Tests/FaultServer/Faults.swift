import NIOCore

/// What the query of a request asks for; all parameters can be combined, unknown ones are ignored.
///
/// | parameter | what happens |
/// |---|---|
/// | `delay=MS` | waits before the head |
/// | `bodyDelay=MS` | waits between head and body |
/// | `status=N` | answers status N (200–599) with a short body; a 3xx beside `redirect`, `hops`, `loop` becomes their status |
/// | `errorBody=BYTES` | the body of `status` is that long |
/// | `times=N` | `status`, `cut`, `reset`, `stall`, `length` and `close` apply only to the first N requests of the same target |
/// | `cut=BYTES` | right Content-Length, but closes after that many bytes of the body |
/// | `reset=BYTES` | the same with a TCP reset, once the client's kernel has those bytes (or after 2 s) |
/// | `length=N` | announces N, sends the true body, closes; outweighs `chunked` |
/// | `stall=BYTES` | right Content-Length, but nothing more after that many bytes, until ``FaultServer/resetStalled()`` |
/// | `drip=BYTES,MS` | sends the body in pieces of BYTES, one each MS |
/// | `chunked=1` | chunked, no Content-Length |
/// | `close=1` | neither: the body ends with the connection; outweighs `length` and `chunked` |
/// | `noanswer=1` | never answers |
/// | `redirect=TARGET` | 302 to the percent-decoded location |
/// | `hops=N` | N redirects to itself with a decreasing counter, then what the rest asks for |
/// | `loop=1` | redirects to itself for ever |
/// | `retryAfter=VALUE` | Retry-After |
/// | `etag=TAG` | ETag `"TAG"` (`W/TAG`: weak); 304 to a matching If-None-Match |
/// | `lastModified=VALUE` | Last-Modified; 304 to an If-Modified-Since not older |
/// | `cacheControl=VALUE` | Cache-Control |
/// | `type=MIME` | Content-Type |
/// | `gzip=1` | gzip-coded body, whatever Accept-Encoding says; ranges are of the coded bytes |
/// | `norange=1` | ignores Range |
/// | `changes=N` | after each N requests of the target the resource is another: see ``FaultServer/body(of:size:version:)``; its ETag is `"TAG-1"`, `"TAG-2"`, … |
/// | `piece=BYTES` | answers a Range with no more than that many bytes |
/// | `rangeShift=N` | `Content-Range` names places N bytes further on than those of the bytes that follow |
/// | `rangeTotal=N` | `Content-Range` names N as the total |
/// | `rangeStatus=N` | answers status N to a Range |
/// | `rangeBare=1` | a 206 has neither ETag nor Last-Modified |
/// | `rangeMultipart=1` | a 206 says that it is in several parts |
/// | `rangeBlind=1` | honours a Range whatever If-Range says |
/// | `header=Name:Value` | one more header line, repeatable |
///
/// Values are percent-decoded; `+` is a plus. Flags are on with `1` or no value, off with `0`.
struct Faults: Sendable {
    struct Drip: Sendable {
        var bytes: Int
        var interval: TimeAmount
    }

    var delay = TimeAmount.zero
    var bodyDelay = TimeAmount.zero
    var status: Int?
    var errorBody = 0
    var times: Int?
    var cut: Int?
    var reset: Int?
    var stall: Int?
    var length: Int?
    var drip: Drip?
    var isChunked = false
    var closes = false
    var isSilent = false
    var redirect: String?
    var hops = 0
    var loops = false
    var retryAfter: String?
    var etag: String?
    var lastModified: String?
    var cacheControl: String?
    var type: String?
    var isGzipped = false
    var ignoresRange = false
    var changes: Int?
    var piece: Int?
    var rangeShift = 0
    var rangeTotal: Int?
    var rangeStatus: Int?
    var hasBareRanges = false
    var hasMultipartRanges = false
    var ignoresIfRange = false
    /// The version of the resource, from 0.
    var version = 0
    var headers: [(name: String, value: String)] = []

    /// These faults without those that `times` has used up.
    ///
    /// - Parameter ordinal: the how manieth request of its target it is, from 1.
    func applying(toRequest ordinal: Int) -> Faults {
        var rest = self
        if let changes {
            rest.version = (ordinal - 1) / changes
            if rest.version > 0, let etag { rest.etag = "\(etag)-\(rest.version)" }
        }
        guard let times, ordinal > times else { return rest }
        rest.status = nil
        rest.cut = nil
        rest.reset = nil
        rest.stall = nil
        rest.length = nil
        rest.closes = false
        return rest
    }
}
