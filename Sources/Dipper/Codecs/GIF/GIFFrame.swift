#if GIF
    import CGIF

    /// What stands before a frame's pixels.
    struct GIFFrame {
        /// What becomes of the frame's area before the next frame is drawn (GIF 89a, 23).
        enum Disposal {
            case keep
            case clear
            case restore
        }

        let left: Int
        let top: Int
        let width: Int
        let height: Int
        let isInterlaced: Bool
        let disposal: Disposal
        /// As the file says.
        let duration: Duration
        /// The pixel of each index in memory's order; 0 leaves what is there.
        let pixels: [UInt32]

        init(_ file: GifFileType, _ control: GraphicsControlBlock) {
            let image = file.Image
            left = Int(image.Left)
            top = Int(image.Top)
            width = Int(image.Width)
            height = Int(image.Height)
            isInterlaced = image.Interlace
            disposal =
                switch control.DisposalMode {
                case DISPOSE_BACKGROUND: .clear
                case DISPOSE_PREVIOUS: .restore
                default: .keep
                }
            duration = .milliseconds(10 * Int(control.DelayTime))
            pixels = Self.pixels(image.ColorMap ?? file.SColorMap, transparent: Int(control.TransparentColor))
        }

        /// Indices beyond the palette are transparent, as in browsers. Without a palette they are greys.
        private static func pixels(_ map: UnsafeMutablePointer<ColorMapObject>?, transparent: Int) -> [UInt32] {
            var pixels = [UInt32](repeating: 0, count: 256)
            if let map, let colors = map.pointee.Colors {
                for index in 0..<min(256, Int(map.pointee.ColorCount)) {
                    let color = colors[index]
                    pixels[index] = pixel(color.Red, color.Green, color.Blue)
                }
            } else {
                for index in 0..<256 { pixels[index] = pixel(UInt8(index), UInt8(index), UInt8(index)) }
            }
            if pixels.indices.contains(transparent) { pixels[transparent] = 0 }
            return pixels
        }

        private static func pixel(_ red: UInt8, _ green: UInt8, _ blue: UInt8) -> UInt32 {
            UInt32(littleEndian: UInt32(red) | UInt32(green) << 8 | UInt32(blue) << 16 | 0xFF00_0000)
        }

        /// Rows in the order they are stored (GIF 89a, appendix E).
        var rows: [(start: Int, step: Int)] {
            isInterlaced ? [(0, 8), (4, 8), (2, 4), (1, 2)] : [(0, 1)]
        }
    }
#endif
