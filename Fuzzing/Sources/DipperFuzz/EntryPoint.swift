import Dipper
import Foundation

/// Which input is tried, by the environment variable `DIPPER_FUZZ`.
private let target: FuzzTarget = {
    let name = ProcessInfo.processInfo.environment["DIPPER_FUZZ"] ?? "header"
    guard let target = FuzzTarget(rawValue: name) else {
        preconditionFailure("DIPPER_FUZZ is one of \(FuzzTarget.allCases.map(\.rawValue)).")
    }
    return target
}()

/// Called by libFuzzer for every input. A broken invariant stops the program, which libFuzzer takes for a finding.
/// - Returns: 0; -1 for inputs that are not worth keeping.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    // A copy of its own, so that Address Sanitizer sees reads past its end.
    let data = start.map { Data(bytes: $0, count: count) } ?? Data()
    return target.run(data) ? 0 : -1
}
