// A window with a long list of photographs. `Gallery --help` lists the options.
import Dipper
import DipperGTK
import DipperInspector
import Foundation
import GalleryWindow
import SampleServer

let help = """
    Opens a window with a long list of photographs, from its own server on the loopback interface.
    Arrow keys, Page Up, Page Down, Home and End move through the list, Return opens a photograph, Escape goes back, and
    q ends the program.

    Gallery [options]
      --count N     the number of photographs in the list (default: 3000)
      --width N     the width of the window (default: 1100)
      --height N    the height of the window (default: 760)
      --memory MB   the memory limit for decoded pictures, in MiB (default: 128)
      --delay MS    the server's delay before each answer, in milliseconds (default: 30)
      --rate MB     the server's speed in megabytes per second and connection (default: 2)
      --inspect     open a live page about the cache, and print its URL
      --help        print this text

    The exit status is 2 for a wrong option, and 3 if there is no display.
    """

func complain(_ text: String, status: Int32) -> Never {
    FileHandle.standardError.write(Data("\(text)\n".utf8))
    exit(status)
}

func readOptions() -> (numbers: [String: Double], inspects: Bool) {
    var inspects = false
    var options: [String: Double] = [
        "--count": 3_000, "--width": 1_100, "--height": 760, "--memory": 128, "--delay": 30, "--rate": 2,
    ]
    var arguments = CommandLine.arguments.dropFirst()
    while let option = arguments.popFirst() {
        if option == "--help" {
            print(help)
            exit(0)
        }
        if option == "--inspect" {
            inspects = true
            continue
        }
        guard options[option] != nil else { complain("There is no option \(option).\n\n\(help)", status: 2) }
        guard let text = arguments.popFirst(), let number = Double(text), (0.001...1e6).contains(number) else {
            complain("\(option) needs a number from 0.001 to 1000000.\n\n\(help)", status: 2)
        }
        options[option] = number
    }
    return (options, inspects)
}

// This comes before any thread starts. By default malloc creates up to eight arenas per core, and each keeps the most
// memory that its threads held at once, so resident memory grows for minutes.
mallopt(M_ARENA_MAX, 2)
let (options, inspects) = readOptions()
func number(_ option: String) -> Int { Int(options[option] ?? 0) }
guard gtk_init_check() != 0 else {
    complain(
        "Gallery: there is no display to open a window on: neither WAYLAND_DISPLAY nor DISPLAY names one.", status: 3)
}
let assets = try Photographs.assets()
let pace = Pace(delay: .milliseconds(number("--delay")), bytesPerSecond: (options["--rate"] ?? 2) * 1e6)
let server = try AssetServer(assets, port: 0, pace: pace)
let folder = FileManager.default.temporaryDirectory.appendingPathComponent("dipper-gallery-\(UUID().uuidString)")
var configuration = ImageCache.Configuration(directory: folder)
configuration.data.name = "gallery"
configuration.data.logger.logLevel = .warning
// The server is on this machine: ignore proxies that the environment names.
configuration.data.network.proxy = ""
configuration.memoryLimit = number("--memory") << 20
let cache = ImageCache(configuration)
var inspection = Inspector.Options()
inspection.recordsAlways = true
let inspector = inspects ? Inspector(cache, inspection) : nil
if let page = try inspector?.start() {
    // Unlike with `print`, at once, also into a file.
    try FileHandle.standardOutput.write(contentsOf: Data("The cache can be watched at \(page)\n".utf8))
}
let photographs = try Photographs(assets, server: server.url, count: max(1, number("--count")))
let window = GalleryWindow(photographs, cache: cache, width: number("--width"), height: number("--height"))
while g_list_model_get_n_items(gtk_window_get_toplevels()) > 0 { g_main_context_iteration(nil, 1) }
await inspector?.stop()
await cache.shutdown()
await server.stop()
try? FileManager.default.removeItem(at: folder)
