// Tries inputs of libFuzzer's on the decoders, the encoders and the readers of text. A broken invariant stops the program, which libFuzzer
// reports as a finding.
//
// usage: DIPPER_FUZZ=TARGET DipperFuzz [libFuzzer's options] FOLDER…

import Dipper
import Foundation
import FuzzDriver

let name = ProcessInfo.processInfo.environment["DIPPER_FUZZ"] ?? "header"
guard FuzzTarget(rawValue: name) != nil else {
    let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
    FileHandle.standardError.write(Data("DIPPER_FUZZ is one of \(names).\n".utf8))
    exit(64)
}

exit(
    fuzz_driver(CommandLine.argc, CommandLine.unsafeArgv) { start, count in
        // A copy of its own, so that Address Sanitizer sees reads past its end.
        let data = start.map { Data(bytes: $0, count: count) } ?? Data()
        return FuzzTarget.chosen.run(data) ? 0 : -1
    })
