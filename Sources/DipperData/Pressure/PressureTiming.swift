/// How fast a monitor of memory pressure is.
package struct PressureTiming: Sendable {
    /// How long a level holds after its last sign.
    package var calm: Duration
    /// How often files are looked at that wake nobody.
    package var period: Duration
    /// The shortest time from one look to the next.
    package var spacing: Duration

    package init(calm: Duration, period: Duration, spacing: Duration) {
        self.calm = calm
        self.period = period
        self.spacing = spacing
    }

    package static let standard = PressureTiming(
        calm: .seconds(10), period: .seconds(5), spacing: .milliseconds(500))
}
