// A window with a long list of photographs. `Gallery --help` lists the options.
import CGTK
import Dipper
import Foundation
import SampleServer

func complain(_ text: String, status: Int32) -> Never {
    FileHandle.standardError.write(Data("\(text)\n".utf8))
    exit(status)
}

// This comes before any thread starts. By default malloc creates up to eight arenas per core, and each keeps the most
// memory that its threads held at once, so resident memory grows for minutes: from libjpeg's and GTK's temporary memory
// and from response bodies.
mallopt(M_ARENA_MAX, 2)

do {
    guard let options = try Options(CommandLine.arguments.dropFirst()) else {
        print(Options.help)
        exit(0)
    }
    guard gtk_init_check() != 0 else {
        complain(
            "Gallery: there is no display to open a window on: neither WAYLAND_DISPLAY nor DISPLAY names one.",
            status: 3)
    }
    try await Program(options).run()
} catch let error as Options.Mistake {
    complain("\(error.text)\n\n\(Options.help)", status: 2)
} catch {
    complain("Gallery: \(error)", status: 1)
}
