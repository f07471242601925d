/// The error of a wait for an event that did not come in time.
///
/// ```swift
/// let transfer = try await transport.nextTransfer(within: .seconds(5))
/// // throws: "no transfer began; 1 transfers so far: http://example.org/a.json, within 5.0 seconds"
/// ```
public struct WaitTimeout: Error, CustomStringConvertible {
    /// A sentence that says what was waited for, how long, and what was there instead.
    public let description: String

    /// The time that each wait takes at most unless the test gives another: 30 seconds of the real clock.
    public static let standard = Duration.seconds(30)

    init(_ description: String) { self.description = description }
}
