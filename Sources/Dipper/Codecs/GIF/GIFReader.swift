#if GIF
    import CGIF
    import Foundation

    /// A reader of a GIF's records that holds only the current frame. It owns giflib's reader.
    final class GIFReader {
        private let input: GIFInput
        private let file: UnsafeMutablePointer<GifFileType>

        init(_ data: Data) throws(DipperError) {
            input = GIFInput(data)
            var error: Int32 = 0
            let opened = DGifOpen(
                Unmanaged.passUnretained(input).toOpaque(),
                { file, buffer, count in
                    guard let file, let buffer, let user = file.pointee.UserData else { return 0 }
                    return Unmanaged<GIFInput>.fromOpaque(user).takeUnretainedValue().read(into: buffer, count)
                }, &error)
            guard let opened else { throw Self.error(error) }
            file = opened
        }

        deinit {
            DGifCloseFile(file, nil)
        }

        /// Advances to the pixels of the next frame; returns `nil` after the last.
        func nextFrame() throws(DipperError) -> GIFFrame? {
            var control = GraphicsControlBlock(
                DisposalMode: DISPOSAL_UNSPECIFIED, UserInputFlag: false, DelayTime: 0, TransparentColor: -1)
            while true {
                var record = UNDEFINED_RECORD_TYPE
                guard DGifGetRecordType(file, &record) == GIF_OK else { throw lastError }
                switch record {
                case IMAGE_DESC_RECORD_TYPE:
                    // DGifGetImageDesc would keep a record of every frame.
                    guard DGifGetImageHeader(file) == GIF_OK else { throw lastError }
                    return GIFFrame(file.pointee, control)
                case EXTENSION_RECORD_TYPE:
                    try readExtension(&control)
                case TERMINATE_RECORD_TYPE:
                    return nil
                default:
                    throw .undecodable.with(detail: "GIF: unknown record")
                }
            }
        }

        private func readExtension(_ control: inout GraphicsControlBlock) throws(DipperError) {
            var code: Int32 = 0
            var block: UnsafeMutablePointer<GifByteType>?
            guard DGifGetExtension(file, &code, &block) == GIF_OK else { throw lastError }
            if code == GRAPHICS_EXT_FUNC_CODE, let block {
                // A block of another length is ignored and leaves the control data as they were.
                DGifExtensionToGCB(Int(block[0]), block + 1, &control)
            }
            while block != nil {
                guard DGifGetExtensionNext(file, &block) == GIF_OK else { throw lastError }
            }
        }

        /// Reads the frame's next row of palette indices.
        /// - Returns: `false` if the file declares the end of the pixels here. Browsers display such frames.
        func readLine(into line: inout [UInt8]) throws(DipperError) -> Bool {
            if DGifGetLine(file, &line, Int32(line.count)) == GIF_OK { return true }
            guard file.pointee.Error == D_GIF_ERR_EOF_TOO_SOON else { throw lastError }
            return false
        }

        /// Skips the rest of the frame's pixels.
        func skipPixels() throws(DipperError) {
            var block: UnsafeMutablePointer<GifByteType>?
            repeat {
                guard DGifGetCodeNext(file, &block) == GIF_OK else { throw lastError }
            } while block != nil
        }

        private var lastError: DipperError { Self.error(file.pointee.Error) }

        private static func error(_ code: Int32) -> DipperError {
            .undecodable.with(detail: GifErrorString(code).map { "GIF: " + String(cString: $0) } ?? "GIF")
        }
    }

    /// The file and the position of giflib's reader in it.
    private final class GIFInput {
        private let data: Data
        private var index: Data.Index

        init(_ data: Data) {
            self.data = data
            index = data.startIndex
        }

        /// Copies the next bytes of the file.
        /// - Returns: the number of bytes copied.
        func read(into buffer: UnsafeMutablePointer<GifByteType>, _ count: Int32) -> Int32 {
            let end = min(data.endIndex, index + max(0, Int(count)))
            data.copyBytes(to: buffer, from: index..<end)
            defer { index = end }
            return Int32(end - index)
        }
    }

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
