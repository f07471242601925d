import NIOCore

/// The faults that the query of a request asks for.
///
/// All parameters can be combined; unknown ones are ignored.
///
/// | parameter | effect |
/// |---|---|
/// | `delay=MS` | waits before the head |
/// | `bodyDelay=MS` | waits between head and body |
/// | `status=N` | answers status N (200–599) with a short body; a 3xx together with `redirect`, `hops` or `loop` is the status of the redirect |
/// | `errorBody=BYTES` | the size of the body of `status`, a redirect, a 404 or a 416 |
/// | `times=N` | `status`, `cut`, `reset`, `stall`, `length` and `close` apply only to the first N requests of the same target |
/// | `cut=BYTES` | sends the right Content-Length, but closes after BYTES bytes of the body |
/// | `reset=BYTES` | like `cut`, but resets the TCP connection once the client's kernel has those bytes (or after 2 s) |
/// | `length=N` | sends Content-Length N and the true body, then closes; overrides `chunked` |
/// | `stall=BYTES` | sends the right Content-Length, but nothing more after BYTES bytes, until ``FaultServer/resetStalled()`` |
/// | `drip=BYTES,MS` | sends the body in pieces of BYTES bytes, one every MS milliseconds |
/// | `chunked=1` | sends the body in chunks, without Content-Length |
/// | `close=1` | sends neither Content-Length nor chunks: the body ends with the connection; overrides `length` and `chunked` |
/// | `noanswer=1` | never answers |
/// | `redirect=TARGET` | answers 302 with the percent-decoded location |
/// | `hops=N` | redirects N times to itself with a decreasing counter, then answers as the other parameters say |
/// | `loop=1` | redirects to itself forever |
/// | `retryAfter=VALUE` | Retry-After |
/// | `etag=TAG` | ETag `"TAG"` (`W/TAG`: weak); 304 to a matching If-None-Match |
/// | `lastModified=VALUE` | Last-Modified; 304 to an If-Modified-Since that is not older |
/// | `cacheControl=VALUE` | Cache-Control |
/// | `type=MIME` | Content-Type |
/// | `gzip=1` | codes the body with gzip, whatever Accept-Encoding says; ranges select coded bytes |
/// | `norange=1` | ignores Range |
/// | `changes=N` | changes the resource after every N requests of the target, see ``FaultServer/body(of:size:version:)``; its ETag is then `"TAG-1"`, `"TAG-2"`, … |
/// | `piece=BYTES` | answers a Range with at most BYTES bytes |
/// | `rangeShift=N` | `Content-Range` names a range N bytes after the range of the bytes sent |
/// | `rangeTotal=N` | `Content-Range` names N as the total |
/// | `rangeStatus=N` | answers status N to a Range |
/// | `rangeBare=1` | a 206 has neither ETag nor Last-Modified |
/// | `rangeMultipart=1` | a 206 has the type `multipart/byteranges` |
/// | `rangeBlind=1` | honours a Range even if If-Range does not match |
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

    /// Returns the faults for one request: its version of the resource, without the faults that `times` has used up.
    ///
    /// - Parameter ordinal: the number of the request among those of its target, from 1.
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
