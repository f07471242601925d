import Foundation

/// A browser, started with an empty profile for each measurement.
struct Chromium {
    private let program: String
    private let profile: URL

    /// Returns `nil` if there is no Chromium.
    init?(_ bench: Bench) {
        guard let program = Command.find("chromium") else { return nil }
        self.program = program
        profile = bench.work.appendingPathComponent("chromium")
    }

    /// Returns the milliseconds from requesting the urgent files to the end of the last one.
    func measure(
        _ link: ShapedLink, _ server: LinkServer, base: String, load: String?, urgent: String, size: Int, delay: Int
    ) async throws -> Double {
        try server.forgetMeasured()
        let browser = Process()
        browser.executableURL = URL(fileURLWithPath: try Command.require("ip"))
        let page = "\(LinkServer.page)#\(base),\(load ?? "none:0"),\(urgent),\(load == nil ? 0 : delay)"
        browser.arguments = ["netns", "exec", link.client, program] + options + [page]
        let cleanUp = try start(browser)
        defer { CleanUp.run(cleanUp) }
        let measured = try await server.nextMeasured()
        guard let time = measured["milliseconds"].flatMap(Double.init), measured["bytes"] == "\(size)" else {
            throw BenchError("Chromium measured \(measured)")
        }
        return time
    }

    /// Returns the processor time, in seconds, that all processes of the browser take to show a file for a time, from the
    /// fourth second on.
    func processorSeconds(showing file: URL, for seconds: Double) async throws -> Double {
        let browser = Process()
        browser.executableURL = URL(fileURLWithPath: program)
        browser.arguments = options + ["--window-size=1000,800", file.absoluteString]
        let cleanUp = try start(browser)
        defer { CleanUp.run(cleanUp) }
        try await Task.sleep(for: .seconds(4))
        let before = processorSeconds(ofGroup: browser.processIdentifier)
        try await Task.sleep(for: .seconds(seconds))
        guard browser.isRunning else { throw BenchError("Chromium ended with \(browser.terminationStatus)") }
        return processorSeconds(ofGroup: browser.processIdentifier) - before
    }

    private var options: [String] {
        [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors",
            "--no-proxy-server", "--disable-background-networking", "--disable-component-update",
            "--disable-default-apps", "--disable-extensions", "--disable-sync", "--no-first-run",
            "--no-default-browser-check", "--user-data-dir=\(profile.path)",
        ]
    }

    /// Starts the browser with an empty profile, and returns the clean-up that ends it.
    private func start(_ browser: Process) throws -> Int {
        try? FileManager.default.removeItem(at: profile)
        browser.standardInput = FileHandle.nullDevice
        browser.standardOutput = FileHandle.nullDevice
        browser.standardError = FileHandle.nullDevice
        try browser.run()
        return CleanUp.add { [profile] in
            browser.terminate()
            browser.waitUntilExit()
            try? FileManager.default.removeItem(at: profile)
        }
    }

    /// The processes that a program starts stay in its group.
    private func processorSeconds(ofGroup group: Int32) -> Double {
        let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        let ticks = processes.filter { Int($0) != nil }.map { process -> Double in
            // The name, in brackets, may hold spaces; state, parent and group follow it.
            guard let stat = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
                let fields = stat.split(separator: ")").last?.split(separator: " "), fields.count > 12,
                fields[2] == "\(group)"
            else { return 0 }
            return (Double(fields[11]) ?? 0) + (Double(fields[12]) ?? 0)
        }
        return ticks.reduce(0, +) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }
}
