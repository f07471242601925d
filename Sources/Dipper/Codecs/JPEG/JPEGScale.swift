/// In which size libjpeg is to decode.
enum JPEGScale {
    /// The eighths of the picture's size that are at least the target. Only powers of two: libjpeg-turbo has fast
    /// transforms for these alone, and 3/8 takes longer than 4/8, 5/8 to 7/8 longer than the whole picture.
    static func eighths(from picture: PixelSize, to target: PixelSize) -> Int {
        for eighths in [1, 2, 4] {
            let width = scaled(picture.width, eighths)
            let height = scaled(picture.height, eighths)
            if width >= target.width && height >= target.height { return eighths }
        }
        return 8
    }

    /// Rounded up, as libjpeg does.
    private static func scaled(_ length: Int, _ eighths: Int) -> Int { (length * eighths + 7) / 8 }
}
