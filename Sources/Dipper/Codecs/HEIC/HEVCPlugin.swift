#if HEIC
    import CHEIF
    import Foundation
    import Synchronization

    /// One decode by libheif, on the thread that decodes.
    final class HEVCSession: Sendable {
        @TaskLocal static var current: HEVCSession?

        private let largest: Int
        private let options: DecodeOptions
        private let error = Mutex<DipperError?>(nil)

        /// - Parameter largest: the most pixels that a coded picture may have.
        init(largest: Int, _ options: DecodeOptions) { (self.largest, self.options) = (largest, options) }

        /// Why libde265 was not given the data.
        var failure: DipperError? { error.withLock { $0 } }

        /// Checks a unit of the coded picture (ITU-T H.265, section 7.3.1), before libde265 takes memory for it.
        fileprivate func allows(_ unit: ByteReader, _ pictures: inout Int) -> Bool {
            do throws(DipperError) {
                try options.checkCancelled()
                let kind = try unit.u8(at: 0) >> 1 & 63
                if kind == 33 {
                    let size = try Self.pictureSize(unit)
                    try size.checkNotEmpty()
                    guard try size.byteCount(1) <= largest else {
                        throw .imageTooLarge.with(detail: "HEIC: a coded picture of \(size) pixels")
                    }
                }
                // The first part of a picture.
                if kind < 32, try unit.u8(at: 2) & 0x80 != 0 { pictures += 1 }
                guard pictures < 2 else { throw .undecodable.with(detail: "HEIC: several pictures in one") }
                return true
            } catch {
                self.error.withLock { $0 = error }
                return false
            }
        }

        /// The size in a sequence parameter set (section 7.3.2.2).
        private static func pictureSize(_ unit: ByteReader) throws(DipperError) -> PixelSize {
            // Without the bytes that keep start codes out of the data: a 3 after two zeros, which count only once.
            var (bytes, zeros) = (Data(), 0)
            for byte in unit.bytes.prefix(200) {
                let isKept = byte != 3 || zeros < 2
                if isKept { bytes.append(byte) }
                zeros = isKept && byte == 0 ? zeros + 1 : 0
            }
            return try bytes.withBytes { bytes throws(DipperError) in
                var bits = BitReader(ByteReader(bytes), from: 2, highestFirst: true)
                bits.position += 4
                let layers = try bits.number(3)
                // The general profile and level, then those of each layer.
                bits.position += 1 + 88 + 8
                if layers > 0 {
                    var length = 0
                    for _ in 0..<layers { length += try (bits.flag() ? 88 : 0) + (bits.flag() ? 8 : 0) }
                    bits.position += 2 * (8 - layers) + length
                }
                func number(_ bits: inout BitReader) throws(DipperError) -> Int {
                    var zeros = 0
                    while zeros < 32, try !bits.flag() { zeros += 1 }
                    return try bits.number(zeros) + 1 << zeros - 1
                }
                _ = try number(&bits)
                if try number(&bits) == 3 { bits.position += 1 }
                return PixelSize(width: try number(&bits), height: try number(&bits))
            }
        }
    }

    /// A decoder of HEVC for libheif: libde265 without threads. libheif's own starts a thread for each picture; behind the
    /// wall of a helper there are none, and libde265 would wait for it forever. Other users of libheif in the process
    /// do not get this decoder.
    enum HEVCPlugin {
        private final class Stream {
            let context: UnsafeMutableRawPointer
            let session: HEVCSession
            var pictures = 0

            init(_ context: UnsafeMutableRawPointer, _ session: HEVCSession) {
                (self.context, self.session) = (context, session)
            }

            deinit { de265_free_decoder(context) }

            static func of(_ pointer: UnsafeMutableRawPointer?) -> Stream? {
                pointer.map { Unmanaged<Stream>.fromOpaque($0).takeUnretainedValue() }
            }
        }

        private static func text(_ text: StaticString) -> UnsafePointer<CChar> {
            UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
        }

        private static func error(_ code: heif_error_code) -> heif_error {
            heif_error(
                code: code, subcode: heif_suberror_Unspecified,
                message: text(code == heif_error_Ok ? "Success" : "HEVC cannot be decoded"))
        }

        static func register() { _ = registration }

        private static let registration: Void = {
            // Never freed: libheif keeps the address.
            let plugin = UnsafeMutablePointer<heif_decoder_plugin>.allocate(capacity: 1)
            plugin.initialize(to: heif_decoder_plugin())
            plugin.pointee.plugin_api_version = 1
            plugin.pointee.get_plugin_name = { HEVCPlugin.text("libde265 without threads") }
            plugin.pointee.init_plugin = {}
            plugin.pointee.deinit_plugin = {}
            // Also of other formats, such as AV1, which are not expected here.
            plugin.pointee.does_support_format = { _ in HEVCSession.current == nil ? 0 : 10_000 }
            plugin.pointee.new_decoder = { decoder in
                guard let session = HEVCSession.current, let context = de265_new_decoder() else {
                    return HEVCPlugin.error(heif_error_Memory_allocation_error)
                }
                decoder?.pointee = Unmanaged.passRetained(Stream(context, session)).toOpaque()
                return HEVCPlugin.error(heif_error_Ok)
            }
            plugin.pointee.free_decoder = { decoder in
                if let decoder { Unmanaged<Stream>.fromOpaque(decoder).release() }
            }
            plugin.pointee.push_data = { decoder, data, count in
                guard let stream = Stream.of(decoder), HEVCPlugin.push(data, count, to: stream) else {
                    return HEVCPlugin.error(heif_error_Decoder_plugin_error)
                }
                return HEVCPlugin.error(heif_error_Ok)
            }
            plugin.pointee.decode_image = { decoder, picture in
                guard let stream = Stream.of(decoder), let picture else {
                    return HEVCPlugin.error(heif_error_Decoder_plugin_error)
                }
                return HEVCPlugin.decode(stream.context, into: picture)
            }
            heif_register_decoder_plugin(plugin)
        }()

        /// Units, each after its length in four bytes.
        private static func push(_ data: UnsafeRawPointer?, _ count: Int, to stream: Stream) -> Bool {
            let bytes = ByteReader(UnsafeRawBufferPointer(start: data, count: count), count: count)
            var offset = 0
            while offset < count {
                guard let length = try? bytes.u32(at: offset),
                    let unit = try? bytes.part(at: offset + 4, count: length),
                    stream.session.allows(unit, &stream.pictures)
                else { return false }
                offset += 4 + length
                // Further layers, such as a second view, are not decoded.
                let isBase = (try? unit.u16(at: 0) & 0x1F8) == 0
                guard
                    !isBase || de265_push_NAL(stream.context, unit.bytes.baseAddress, Int32(length), 0, nil) == DE265_OK
                else { return false }
            }
            return true
        }

        private static func decode(
            _ context: UnsafeMutableRawPointer, into picture: UnsafeMutablePointer<OpaquePointer?>
        ) -> heif_error {
            guard de265_flush_data(context) == DE265_OK else { return error(heif_error_Decoder_plugin_error) }
            var more: Int32 = 1
            while more != 0 {
                more = 0
                guard de265_decode(context, &more) == DE265_OK else { break }
                guard let decoded = de265_get_next_picture(context) else { continue }
                return copy(decoded, into: picture)
            }
            return error(heif_error_Decoder_plugin_error)
        }

        private static func copy(_ decoded: OpaquePointer, into picture: UnsafeMutablePointer<OpaquePointer?>)
            -> heif_error
        {
            func size(_ channel: Int32) -> (width: Int32, height: Int32) {
                (de265_get_image_width(decoded, channel), de265_get_image_height(decoded, channel))
            }
            let chroma = heif_chroma(rawValue: de265_get_chroma_format(decoded).rawValue)
            let isGrey = chroma == heif_chroma_monochrome
            var result = heif_image_create(
                size(0).width, size(0).height, isGrey ? heif_colorspace_monochrome : heif_colorspace_YCbCr, chroma,
                picture)
            for (channel, name) in [heif_channel_Y, heif_channel_Cb, heif_channel_Cr].prefix(isGrey ? 1 : 3)
                .enumerated()
            {
                guard result.code == heif_error_Ok else { return result }
                let (width, height) = size(Int32(channel))
                let bits = de265_get_bits_per_pixel(decoded, Int32(channel))
                result = heif_image_add_plane(picture.pointee, name, width, height, bits)
                var (from, to): (Int32, Int32) = (0, 0)
                guard result.code == heif_error_Ok, let source = de265_get_image_plane(decoded, Int32(channel), &from),
                    let target = heif_image_get_plane(picture.pointee, name, &to)
                else { return error(heif_error_Memory_allocation_error) }
                for y in 0..<Int(height) {
                    memcpy(target + y * Int(to), source + y * Int(from), Int(width) * (bits > 8 ? 2 : 1))
                }
            }
            // The matrix and the range, if the file around does not state them.
            if let color = heif_nclx_color_profile_alloc() {
                defer { heif_nclx_color_profile_free(color) }
                _ = heif_nclx_color_profile_set_color_primaries(
                    color, UInt16(clamping: de265_get_image_colour_primaries(decoded)))
                _ = heif_nclx_color_profile_set_transfer_characteristics(
                    color, UInt16(clamping: de265_get_image_transfer_characteristics(decoded)))
                _ = heif_nclx_color_profile_set_matrix_coefficients(
                    color, UInt16(clamping: de265_get_image_matrix_coefficients(decoded)))
                color.pointee.full_range_flag = UInt8(clamping: de265_get_image_full_range_flag(decoded))
                heif_image_set_nclx_color_profile(picture.pointee, color)
            }
            return result
        }
    }
#endif
