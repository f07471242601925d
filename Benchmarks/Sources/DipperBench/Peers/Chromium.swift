import Foundation

/// A browser at the client's end of a link, started with an empty profile for each measurement.
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
        try? FileManager.default.removeItem(at: profile)
        let browser = Process()
        browser.executableURL = URL(fileURLWithPath: try Command.require("ip"))
        browser.arguments = [
            "netns", "exec", link.client, program, "--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--ignore-certificate-errors", "--no-proxy-server",
            "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
            "--disable-extensions", "--disable-sync", "--no-first-run", "--no-default-browser-check",
            "--user-data-dir=\(profile.path)",
            "\(LinkServer.page)#\(base),\(load ?? "none:0"),\(urgent),\(load == nil ? 0 : delay)",
        ]
        browser.standardInput = FileHandle.nullDevice
        browser.standardOutput = FileHandle.nullDevice
        browser.standardError = FileHandle.nullDevice
        try browser.run()
        let cleanUp = CleanUp.add { [profile] in
            browser.terminate()
            browser.waitUntilExit()
            try? FileManager.default.removeItem(at: profile)
        }
        defer { CleanUp.run(cleanUp) }
        let measured = try await server.nextMeasured()
        guard let time = measured["milliseconds"].flatMap(Double.init), measured["bytes"] == "\(size)" else {
            throw BenchError("Chromium measured \(measured)")
        }
        return time
    }
}
