import NIOCore

extension Faults {
    init(_ target: Target) throws(BadParameter) {
        for (name, value) in target.parameters {
            switch name {
            case "delay": delay = try Self.milliseconds(name, value)
            case "bodyDelay": bodyDelay = try Self.milliseconds(name, value)
            case "status": status = try Self.number(name, value, in: 200...599)
            case "errorBody": errorBody = try Self.number(name, value)
            case "times": times = try Self.number(name, value)
            case "cut": cut = try Self.number(name, value)
            case "stall": stall = try Self.number(name, value)
            case "reset": reset = try Self.number(name, value)
            case "length": length = try Self.number(name, value)
            case "drip": drip = try Self.drip(name, value)
            case "chunked": isChunked = try Self.flag(name, value)
            case "close": closes = try Self.flag(name, value)
            case "noanswer": isSilent = try Self.flag(name, value)
            case "redirect": redirect = value
            case "hops": hops = try Self.number(name, value)
            case "loop": loops = try Self.flag(name, value)
            case "retryAfter": retryAfter = value
            case "etag": etag = value
            case "lastModified": lastModified = value
            case "cacheControl": cacheControl = value
            case "type": type = value
            case "gzip": isGzipped = try Self.flag(name, value)
            case "norange": ignoresRange = try Self.flag(name, value)
            case "changes": changes = try Self.number(name, value, in: 1...Int.max)
            case "piece": piece = try Self.number(name, value, in: 1...Int.max)
            case "rangeShift": rangeShift = try Self.number(name, value, in: 0...1 << 30)
            case "rangeTotal": rangeTotal = try Self.number(name, value)
            case "rangeStatus": rangeStatus = try Self.number(name, value, in: 200...599)
            case "rangeBare": hasBareRanges = try Self.flag(name, value)
            case "rangeMultipart": hasMultipartRanges = try Self.flag(name, value)
            case "rangeBlind": ignoresIfRange = try Self.flag(name, value)
            case "header": headers.append(try Self.header(name, value))
            default: break
            }
        }
    }

    private static func number(
        _ name: String, _ value: String, in range: ClosedRange<Int> = 0...Int.max
    ) throws(BadParameter) -> Int {
        guard let number = Int(value), range.contains(number) else {
            throw BadParameter(name: name, value: value)
        }
        return number
    }

    private static func milliseconds(
        _ name: String, _ value: String
    ) throws(BadParameter) -> TimeAmount {
        // At most one day, because NIO's `TimeAmount` traps on overflow.
        .milliseconds(Int64(try number(name, value, in: 0...86_400_000)))
    }

    private static func flag(_ name: String, _ value: String) throws(BadParameter) -> Bool {
        switch value {
        case "1", "": true
        case "0": false
        default: throw BadParameter(name: name, value: value)
        }
    }

    private static func drip(_ name: String, _ value: String) throws(BadParameter) -> Drip {
        let parts = value.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2 else { throw BadParameter(name: name, value: value) }
        return Drip(
            bytes: try number(name, parts[0], in: 1...Int.max),
            interval: try milliseconds(name, parts[1]))
    }

    private static func header(
        _ name: String, _ value: String
    ) throws(BadParameter) -> (name: String, value: String) {
        guard let colon = value.firstIndex(of: ":"), colon != value.startIndex else {
            throw BadParameter(name: name, value: value)
        }
        let content = value[value.index(after: colon)...].drop { $0 == " " }
        return (String(value[..<colon]), String(content))
    }
}
