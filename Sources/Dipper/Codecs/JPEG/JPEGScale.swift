/// The choice of the size to which libjpeg decodes.
enum JPEGScale {
    /// Returns the smallest number of eighths of the picture's size that is at least the target. Only powers of two are
    /// used, because libjpeg-turbo has fast transforms only for these: 3/8 takes longer than 4/8, and 5/8 to 7/8 take
    /// longer than the whole picture.
    static func eighths(from picture: PixelSize, to target: PixelSize) -> Int {
        for eighths in [1, 2, 4] {
            let width = scaled(picture.width, eighths)
            let height = scaled(picture.height, eighths)
            if width >= target.width && height >= target.height { return eighths }
        }
        return 8
    }

    /// Returns a length in eighths, rounded up as libjpeg does.
    private static func scaled(_ length: Int, _ eighths: Int) -> Int { (length * eighths + 7) / 8 }
}
