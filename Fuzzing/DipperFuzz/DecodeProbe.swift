import Dipper
import Foundation

/// Decodes one input in all ways there are.
struct DecodeProbe {
    static let limits: DecodeLimits = {
        var limits = DecodeLimits()
        limits.pixels = 1 << 20
        limits.bytes = 64 << 20
        limits.frames = 50
        limits.time = .seconds(2)
        return limits
    }()

    private let data: Data
    private let info: ImageInfo?
    /// As the header says; not of sequences that have an item beside, which may say something else.
    private let size: PixelSize?

    init(_ data: Data) {
        self.data = data
        info = try? ImageInfo(data)
        size = data.dropFirst(8).starts(with: Array("avis".utf8)) ? nil : info?.size
    }

    func run() {
        let whole = decode(nil, allowsPartial: false)
        let partial = decode(nil, allowsPartial: true)
        if let whole {
            guard let partial else { fatalError("Broken: what is whole is also partial") }
            require(PictureRules.areEqual(whole, partial), "leave for partial pictures changes no whole one")
        }
        if let cut = dataWithoutEnd, !isAnimatedPNG {
            // libpng decodes what has no end.
            let other = (try? CodecRegistry.standard.decode(cut, options(nil, false)))
            require((other == nil) == (whole == nil), "both decoders of PNG decode the same files")
            if let whole, let other { require(PictureRules.areEqual(whole, other), "and to the same pixels") }
        }
        let wanted = PixelSize(width: 1 + data.count % 61, height: 1 + data.count % 47)
        for mode in TargetSize.Mode.allCases {
            let target = TargetSize(wanted, mode, allowsUpscaling: data.count % 2 == 0)
            // A small picture may need less of a broken file, and less memory: the whole one may have failed.
            _ = decode(target, allowsPartial: data.count % 3 == 0)
        }
        if (whole ?? partial)?.animation != nil { decodeFrames() }
    }

    /// Its first frame may be another picture than its pixels.
    private var isAnimatedPNG: Bool { data.firstRange(of: Data("acTL".utf8)) != nil }

    /// A PNG file up to the kind of the chunk behind the pixels.
    private var dataWithoutEnd: Data? {
        guard ImageFormat(sniffing: data) == .png else { return nil }
        let bytes = [UInt8](data)
        var (offset, hasPixels) = (8, false)
        while offset + 12 <= bytes.count {
            let isPixels = bytes[(offset + 4)..<(offset + 8)].elementsEqual("IDAT".utf8)
            if hasPixels, !isPixels { return Data(bytes[..<(offset + 11)]) }
            hasPixels = isPixels
            offset += 12 + bytes[offset..<(offset + 4)].reduce(0) { $0 << 8 | Int($1) }
        }
        return nil
    }

    private func decode(_ target: TargetSize?, allowsPartial: Bool) -> Image? {
        let options = options(target, allowsPartial)
        do throws(DipperError) {
            let image = try CodecRegistry.standard.decode(data, options)
            require(info != nil, "what can be decoded has a header")
            PictureRules.check(image, is: size, options)
            let memory = (try? CodecRegistry.standard.decoder(for: data).memory(of: data, options)) ?? .max
            require(memory <= Self.limits.bytes, "the memory of a decode is known, and within the limits")
            require(memory >= image.rowStride * image.height, "it counts the result")
            return image
        } catch {
            check(error)
            return nil
        }
    }

    private func decodeFrames() {
        let options = options(nil, true)
        do throws(DipperError) {
            let decoder = try CodecRegistry.standard.decoder(for: data)
            guard let frames = try decoder.frames(of: data, options) else { return }
            let count = try countFrames(frames, options)
            try frames.rewind()
            require(try countFrames(frames, options) == count, "the second round is as long as the first")
            try comparePieces(decoder, options)
        } catch {
            check(error)
        }
    }

    /// The frames of a part of an animated PNG are the first of the whole.
    private func comparePieces(_ decoder: any ImageDecoder, _ options: DecodeOptions) throws(DipperError) {
        guard isAnimatedPNG, let whole = try decoder.frames(of: data, options),
            let part = try? decoder.frames(of: data.prefix(data.count * 2 / 3), options)
        else { return }
        while let frame = try part.next() {
            guard let same = try whole.next() else { fatalError("Broken: a part has no more frames than the whole") }
            require(PictureRules.areEqual(frame.image, same.image), "a part has the frames of the whole")
        }
    }

    private func countFrames(_ frames: any FrameDecoder, _ options: DecodeOptions) throws(DipperError) -> Int {
        var count = 0
        while let frame = try frames.next() {
            count += 1
            require(count <= Self.limits.frames, "no more frames than allowed")
            require(frame.duration >= .zero, "time goes on")
            PictureRules.check(frame.image, is: size, options)
        }
        return count
    }

    private func options(_ target: TargetSize?, _ allowsPartial: Bool) -> DecodeOptions {
        var options = DecodeOptions(target: target)
        options.allowsPartial = allowsPartial
        options.limits = Self.limits
        // The checks of coded sizes are code of Dipper's own. Of the other formats decoded apart, helpers may crash.
        if info?.format == .heic { options.isolation = .off }
        return options
    }

    private func check(_ error: DipperError) {
        let mayCrash = info?.format == .jpegXL || info?.format == .svg
        require(
            [.undecodable, .imageTooLarge, .unsupportedFormat].contains(error) || mayCrash && error == .decoderFailed,
            "an error of decoders, not \(error)")
    }
}
