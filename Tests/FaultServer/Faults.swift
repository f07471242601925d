import NIOCore

/// What the query of a request asks for; all parameters can be combined, unknown ones are ignored.
///
/// | parameter | what happens |
/// |---|---|
/// | `delay=MS` | waits before the head |
/// | `bodyDelay=MS` | waits between head and body |
/// | `status=N` | answers status N (200–599) with a short body; a 3xx beside `redirect`, `hops`, `loop` becomes their status |
/// | `errorBody=BYTES` | the body of `status` is that long |
/// | `times=N` | `status`, `cut`, `reset`, `length` and `close` apply only to the first N requests of the same target |
/// | `cut=BYTES` | right Content-Length, but closes after that many bytes of the body |
/// | `reset=BYTES` | the same with a TCP reset, once the client's kernel has those bytes (or after 2 s) |
/// | `length=N` | announces N, sends the true body, closes; outweighs `chunked` |
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
    var headers: [(name: String, value: String)] = []

    /// These faults without those that `times` has used up.
    ///
    /// - Parameter ordinal: the how manieth request of its target it is, from 1.
    func applying(toRequest ordinal: Int) -> Faults {
        guard let times, ordinal > times else { return self }
        var rest = self
        rest.status = nil
        rest.cut = nil
        rest.reset = nil
        rest.length = nil
        rest.closes = false
        return rest
    }
}
