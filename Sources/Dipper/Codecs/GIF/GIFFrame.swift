#if GIF
    import CGIF

    /// A frame's position, colours and control data, which come before its pixels in the file.
    struct GIFFrame {
        /// A treatment of the frame's area before the next frame is drawn (GIF 89a, 23).
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
        /// The time for which the frame is displayed, as the file states it.
        let duration: Duration
        /// The pixel for each palette index, in the byte order of memory; 0 leaves the canvas as it is.
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

        /// Returns the pixel for each index. Indices beyond the palette are transparent, as in browsers. Without a
        /// palette the indices are greys.
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

        /// The order in which rows are stored (GIF 89a, appendix E).
        var rows: [(start: Int, step: Int)] {
            isInterlaced ? [(0, 8), (4, 8), (2, 4), (1, 2)] : [(0, 1)]
        }
    }
#endif
