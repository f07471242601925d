extension Color {
    /// Tells this colour from every other: its hexadecimal digits where they say all of it.
    var identifier: String {
        let bytes = [red, green, blue, alpha].map { ($0 * 255).rounded() }
        let isWhole = zip(bytes, [red, green, blue, alpha]).allSatisfy { $0 / 255 == $1 }
        return isWhole ? hex : "\(red):\(green):\(blue):\(alpha)"
    }
}
