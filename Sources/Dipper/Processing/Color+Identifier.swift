extension Color {
    /// A text that differs for any two colours: the hexadecimal digits if they are exact, else all components.
    var identifier: String {
        let bytes = [red, green, blue, alpha].map { ($0 * 255).rounded() }
        let isWhole = zip(bytes, [red, green, blue, alpha]).allSatisfy { $0 / 255 == $1 }
        return isWhole ? hex : "\(red):\(green):\(blue):\(alpha)"
    }
}
