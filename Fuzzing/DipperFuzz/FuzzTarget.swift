import Dipper
import Foundation

/// What inputs are given to.
enum FuzzTarget: String, CaseIterable {
    /// Decoders, each with bytes that begin as its format does.
    case jpeg, png, gif, webp, avif, heic, jxl, svg, bmp, ico
    /// PNG, given right checksums, so that what is behind them is met.
    case apng
    /// Headers of all formats.
    case header
    /// Decoders, then encoders, then decoders again.
    case encode
    /// Text of servers and pages.
    case dataURL, fields, contentRange, cacheControl
    /// Entries of the disk and of other processes.
    case record
    /// Messages between a program and the helper that decodes for it.
    case messages

    /// The target that the environment variable `DIPPER_FUZZ` names.
    static let chosen = FuzzTarget(rawValue: ProcessInfo.processInfo.environment["DIPPER_FUZZ"] ?? "") ?? .header

    /// - Returns: whether the input was of the kind that is looked for.
    func run(_ data: Data) -> Bool {
        switch self {
        case .header:
            HeaderProbe.run(data)
            return true
        case .encode:
            return EncodeProbe.run(data)
        case .dataURL, .fields, .contentRange, .cacheControl:
            #if DEBUG
                TextProbe.run(self, data)
            #endif
            return true
        case .record:
            #if DEBUG
                RecordProbe.run(data)
            #endif
            return true
        case .messages:
            #if DEBUG
                MessageProbe.run(data)
            #endif
            return true
        case .apng:
            guard ImageFormat(sniffing: data) == .png else { return false }
            let data = PNGChecksums.repaired(data)
            DecodeProbe(data).run()
            _ = EncodeProbe.run(data)
            return true
        case .jpeg, .png, .gif, .webp, .avif, .heic, .jxl, .svg, .bmp, .ico:
            guard ImageFormat(sniffing: data)?.rawValue == rawValue else { return false }
            DecodeProbe(data).run()
            return true
        }
    }
}

/// Stops the program if something that always holds does not.
func require(_ condition: Bool, _ rule: @autoclosure () -> String) {
    if !condition { fatalError("Broken: \(rule())") }
}
