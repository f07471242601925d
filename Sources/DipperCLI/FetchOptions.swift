import ArgumentParser
import Dipper
import Foundation

/// The options of the commands that fetch.
struct FetchOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("Write each body to a file in this folder, which is created if needed.", valueName: "DIR"))
    var out: String?

    @OptionGroup var pictures: PictureOptions
    @OptionGroup var requests: RequestOptions

    @Option(help: ArgumentHelp("Draw a timeline of all jobs to this file.", valueName: "FILE.svg"))
    var timeline: String?
}
