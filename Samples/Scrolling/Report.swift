import Dipper
import Foundation
import SampleServer

struct Report {
    private let assets: Assets
    private var thumbnails: Thumbnails
    private var complaints: [String] = []

    init(assets: Assets) {
        self.assets = assets
        thumbnails = Thumbnails(assets)
    }

    var isGood: Bool { complaints.isEmpty }

    func introduce(_ scroll: Scroll, _ server: URL, _ pace: Pace) {
        let rate = Self.decimal(pace.bytesPerSecond / 1e6)
        print(
            """
            A list of \(scroll.rows) photos is scrolled; \(scroll.screen) rows fit the screen, \(scroll.ahead) more \
            are fetched ahead.
            The server at \(server) takes \(Self.text(pace.delay)) to answer and sends \(rate) MB/s per connection.

            """)
    }

    mutating func firstPass(
        _ ends: [CallLog.End], _ duration: Duration, _ events: EventTally.Counts, _ server: AssetServer,
        _ cache: ImageCache
    ) {
        let rows = ends.filter { $0.purpose == .row }
        print(Self.line("", ["calls", "memory", "disk", "network", "median", "slowest"]))
        table("feed and guide", ends.filter { $0.purpose == .document })
        table("rows on screen", rows.filter { $0.queue == .fast })
        table("rows that left before they came", rows.filter { $0.queue == .slow })
        table("rows fetched ahead", ends.filter { $0.purpose == .ahead })

        let addresses = Set(ends.map(\.url))
        let bytes = addresses.reduce(0) { $0 + (assets.files[$1.path]?.count ?? 0) }
        print(
            """
            Median and slowest: from the call to the bytes or the picture, of what came from the network.

            \(Self.count(server.log.count, "request")) at the server for \(addresses.count) addresses, \
            \(Self.decimal(Double(bytes) / 1e6)) MB, in \(Self.text(duration)).
            \(ends.count { $0.isFailed }) of the calls failed, \(ends.count { $0.isCancelled }) were cancelled.
            \(Self.count(events.pauses, "pause")) of prefetches for rows on screen; \
            \(Self.count(events.promotions, "prefetch", "prefetches")) became urgent, \
            \(Self.count(events.demotions, "urgent call")) became prefetches.
            \(Self.count(cache.memoryCount, "picture")) decoded to at most \(Thumbnails.downsample.target.size) pixels, \
            \(Self.decimal(Double(cache.memorySize) / 1e6)) MB in memory.

            """)
        check(ends, cache)
        if server.log.mostForOnePath > 1 {
            complaints.append("An address was fetched \(server.log.mostForOnePath) times.")
        }
    }

    mutating func secondPass(
        _ ends: [CallLog.End], _ duration: Duration, requests: Int, _ cache: ImageCache
    ) {
        let memory = Self.number(ends, from: .memory)
        let disk = Self.number(ends, from: .disk)
        print(
            """
            Again, with a new cache on the same folder: all \(ends.count) in \(Self.text(duration)), \
            \(disk) from disk, \(memory) from memory;
            \(Self.count(requests, "request")) at the server.

            """)
        check(ends, cache)
        if requests > 0 || memory + disk < ends.count {
            complaints.append("The second pass was not answered from the cache alone.")
        }
    }

    func conclude(timeline: URL, contactSheet: URL) {
        print("Timeline: \(timeline.path)")
        print("Contact sheet: \(contactSheet.path)")
        for complaint in complaints.prefix(10) { print("FAILED: \(complaint)") }
        if complaints.count > 10 { print("FAILED: \(complaints.count - 10) more") }
        if isGood { print("All bytes and pictures are right; nothing was fetched twice.") }
    }

    /// Checks that each call returned the bytes of its file or a thumbnail of it, and that the cache has the file's
    /// bytes.
    private mutating func check(_ ends: [CallLog.End], _ cache: ImageCache) {
        for end in ends {
            switch end.result.map(\.content) {
            case .failure(let error):
                let what = error.isCancelled ? "was cancelled" : "failed: \(error)"
                complaints.append("\(Redaction.standard.text(end.url)) \(what)")
            case .success(.bytes(let bytes)):
                check(bytes, end.url)
            case .success(.picture(let image)):
                check(cache.data.readData(for: end.url) ?? Data(), end.url)
                do {
                    if let defect = try thumbnails.defect(of: image, path: end.url.path) {
                        complaints.append("\(Redaction.standard.text(end.url)): \(defect)")
                    }
                } catch {
                    complaints.append("\(Redaction.standard.text(end.url)): \(error)")
                }
            }
        }
    }

    private mutating func check(_ bytes: Data, _ url: URL) {
        if bytes != assets.files[url.path] {
            complaints.append("\(Redaction.standard.text(url)): \(bytes.count) bytes that are not those of the file")
        }
    }

    // MARK: Printing

    private func table(_ name: String, _ ends: [CallLog.End]) {
        // Answers from memory take no time and would hide how long the others took.
        let waits = ends.filter { (try? $0.result.get())?.source == .network }.map(\.wait).sorted()
        let sources = [ResponseSource.memory, .disk, .network].map { "\(Self.number(ends, from: $0))" }
        let times =
            waits.isEmpty
            ? ["–", "–"] : [Self.text(waits[waits.count / 2]), Self.text(waits[waits.count - 1])]
        print(Self.line(name, ["\(ends.count)"] + sources + times))
    }

    private static func number(_ ends: [CallLog.End], from source: ResponseSource) -> Int {
        ends.count { (try? $0.result.get())?.source == source }
    }

    private static func line(_ name: String, _ cells: [String]) -> String {
        func padding(_ text: String, _ width: Int) -> String {
            String(repeating: " ", count: max(0, width - text.count))
        }
        return name + padding(name, 32) + cells.map { padding($0, 9) + $0 }.joined()
    }

    private static func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(number) \(number == 1 ? noun : plural ?? noun + "s")"
    }

    private static func decimal(_ value: Double) -> String {
        value.formatted(.number.precision(.fractionLength(1)).locale(Locale(identifier: "en_US_POSIX")))
    }

    private static func text(_ duration: Duration) -> String {
        let milliseconds = duration / .milliseconds(1)
        if milliseconds < 10 { return "\(decimal(milliseconds)) ms" }
        return milliseconds < 1_000
            ? "\(Int(milliseconds.rounded())) ms" : "\(decimal(milliseconds / 1_000)) s"
    }
}
