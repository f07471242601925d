/// A request as `/log` shows it.
struct LogEntry: Encodable {
    var id: Int
    var method: String
    var target: String
    var path: String
    /// Pairs of name and value.
    var headers: [[String]]
    var connection: Int
    /// Milliseconds since the server started.
    var startMS: Double
    /// Milliseconds since the server started; absent while the response is running.
    var endMS: Double?
    var bytesSent: Int
    var status: Int

    init(_ request: FaultServer.Request, epoch: ContinuousClock.Instant) {
        id = request.id
        method = request.method
        target = request.target
        path = request.path
        headers = request.headers.map { [$0.name, $0.value] }
        connection = request.connection
        startMS = (request.start - epoch) / .milliseconds(1)
        endMS = request.end.map { ($0 - epoch) / .milliseconds(1) }
        bytesSent = request.bytesSent
        status = request.status
    }
}
