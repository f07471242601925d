/// The times that a monitor of memory pressure uses.
package struct PressureTiming: Sendable {
    /// How long a level lasts after its last sign.
    package var calm: Duration
    /// The interval at which files are read that do not wake the thread.
    package var period: Duration
    /// The shortest time between two looks.
    package var spacing: Duration

    package init(calm: Duration, period: Duration, spacing: Duration) {
        self.calm = calm
        self.period = period
        self.spacing = spacing
    }

    package static let standard = PressureTiming(
        calm: .seconds(10), period: .seconds(5), spacing: .milliseconds(500))
}
