// A window with a long list of photographs. `Gallery --help` lists the options.
import CGTK
import Dipper
import Foundation
import SampleServer

func complain(_ text: String, status: Int32) -> Never {
    FileHandle.standardError.write(Data("\(text)\n".utf8))
    exit(status)
}

// Before there are threads. By default malloc makes eight arenas for each core, and each keeps the most that its threads
// had at once, so that what is resident creeps up for minutes: of what libjpeg and GTK take for a moment, and of bodies.
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
