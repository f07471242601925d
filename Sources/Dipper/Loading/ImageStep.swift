import Foundation

struct ImageTools: Sendable {
    let codecs: CodecRegistry
    let limits: DecodeLimits
    let threads: Int
    let isolation: Isolation
    let decoderProgram: URL?
}

/// A step by which a picture is made: the decoding, or one processor of a request.
final class ImageStep: ObjectStep {
    /// The options with the processors up to this step.
    let options: ResolvedOptions
    private let tools: ImageTools
    let before: (any ObjectStep)?
    let isWholePath: Bool

    /// Processors are code of the program's own: they are asked here, on the caller's thread.
    init(_ options: ResolvedOptions, _ tools: ImageTools) {
        (self.options, self.tools) = (options, tools)
        let processors = options.chain.processors
        before = processors.isEmpty ? nil : ImageStep(options.withoutLastProcessor, tools)
        // The decoder makes the size that the first processor asks for.
        isWholePath =
            processors.isEmpty
            || processors.count == 1 && options.chain.decodeTarget != nil && options.options.extractor == nil
    }

    var suffix: String { options.keySuffix }
    /// A picture that was added without processors is the original of all pictures of its key.
    var addedSuffix: String { isStored ? suffix : "" }

    func make(of material: Material, _ task: MakingTask) throws(DipperError) -> Product {
        let decode = decodeOptions(for: material, isCancelled: task.isCancelled)
        let image: Image
        switch material {
        case .bytes(let data):
            let decoded = try task.decode { () throws(DipperError) -> Image in
                if let early = task.early as? EarlyDecode, let image = early.finish(data) { return image }
                let file = try options.options.extractor?.picture(of: data, isCancelled: task.isCancelled)
                return try tools.codecs.decode(file ?? data, decode)
            }
            image = isStored ? try process(decoded, task) : decoded
        case .product(let parent):
            image = try process(parent.value(as: Image.self).at(scale: options.processingScale), task)
        case .form(let data):
            image = try task.decode { () throws(DipperError) in try tools.codecs.decode(data, decode) }
        }
        return Product(image, cost: image.footprint, weak: \.held)
    }

    private func decodeOptions(
        for material: Material, isCancelled: @escaping @Sendable () -> Bool = { false }
    ) -> DecodeOptions {
        var decode = options.decodeOptions(tools, isCancelled: isCancelled)
        switch material {
        case .bytes where !isStored:
            // The whole picture, for all that is made from it.
            decode.target = nil
            decode.scale = 1
        // A file that is already processed is decoded in its own size.
        case .form: decode.target = nil
        default: break
        }
        return decode
    }

    private func process(_ image: Image, _ task: MakingTask) throws(DipperError) -> Image {
        var context = ProcessingContext(limits: tools.limits, isCancelled: task.isCancelled)
        // An animation keeps the context, which must not keep the bytes.
        context.onStep = task.tellStep
        return try ImageProcessors.Chain(options.chain.processors.suffix(1)).process(image, context)
    }

    func cost(of material: Material) -> Int {
        switch material {
        case .bytes(let data):
            tools.codecs.cost(of: data, decodeOptions(for: material), isProcessed: !options.chain.processors.isEmpty)
        case .form(let data): tools.codecs.cost(of: data, decodeOptions(for: material), isProcessed: false)
        // The cost of the picture, and that of the picture made from it.
        case .product(let parent): 2 * parent.cost
        }
    }

    var place: CallbackQueue? {
        options.options.processingQueue.flatMap { $0.isInPlace ? nil : $0 }
    }

    var programs: Workers? { options.options.extractor?.threads }

    func early() -> (any EarlyMaking)? {
        guard before == nil || isWholePath, options.options.extractor == nil, place == nil,
            [.off, .automatic].contains(tools.isolation)
        else { return nil }
        return EarlyDecode(tools.codecs, decodeOptions(for: .bytes(Data())))
    }

    func previews() -> (any PreviewScan)? { options.options.extractor == nil ? PictureScan() : nil }

    func preview(of data: Data, _ task: MakingTask) -> Product? {
        var decode = options.decodeOptions(tools, isCancelled: task.isCancelled)
        decode.allowsPartial = true
        // Frames that are decoded on demand would keep the bytes.
        decode.firstFrameOnly = true
        guard let image = try? tools.codecs.decode(data, decode),
            let processed = try? options.chain.process(
                image, ProcessingContext(limits: tools.limits, isCancelled: task.isCancelled))
        else { return nil }
        return Product(processed, cost: processed.footprint)
    }

    var isStored: Bool { options.isStored }
    var needsBytes: Bool { options.options.extractor == nil && options.options.serializer?.readsOriginal == true }

    /// A write that waits keeps no more of the file in memory than it needs. Some serializers need the whole original.
    func excerpt(of data: Data) -> Data? {
        !isStored || needsBytes ? data : Data(data.prefix(CodecRegistry.sniffLength))
    }

    func form(
        of product: Product, madeOf original: Data?, isCancelled: @escaping @Sendable () -> Bool
    ) throws(DipperError) -> Data {
        // The bytes that an extractor reads are not the file of a picture.
        let original = options.options.extractor == nil ? original : nil
        var image: Image = product.value()
        image.animation = image.animation?.cancelled(by: isCancelled)
        return try (options.options.serializer ?? .automatic).data(for: image, madeOf: original, tools.codecs)
    }
}

/// Decides which prefixes of a file are worth a preview: the scans of a progressive JPEG, or the bytes whenever they
/// have doubled, so that all previews decode at most twice as many bytes as the file has.
struct PictureScan: PreviewScan {
    /// In bytes. Smaller files have no preview.
    private var next = 16 << 10
    private var progressive = ProgressiveJPEG()
    private(set) var isPointless = false

    mutating func preview(in data: Data) -> Int? {
        let format = ImageFormat(sniffing: data.prefix(CodecRegistry.sniffLength))
        if format == .jpeg {
            let length = progressive.preview(in: data)
            if progressive.isProgressive != false { return length }
        }
        guard data.count >= next else { return nil }
        next = 2 * data.count
        guard [ImageFormat.jpeg, .png, .webp, .gif, .bmp].contains(where: { $0 == format }) else {
            isPointless = true
            return nil
        }
        // The first frame of an animation, its only preview, is complete when the second begins.
        if let info = try? ImageInfo(data), info.frameCount > 1 { isPointless = true }
        return data.count
    }
}

extension CodecRegistry {
    /// The memory for making a picture, in bytes: what its decoder says, and a second picture if it is processed. What
    /// no decoder of this program reads, such as a video, counts by its header, or by its bytes.
    func cost(of data: Data, _ options: DecodeOptions, isProcessed: Bool) -> Int {
        do throws(DipperError) {
            // A library reads no header in this program if the picture is decoded apart.
            let known = try? decoder(for: data)
            let isApart = known.map { isolation(of: $0, options) != .off } ?? false
            let decoder = isApart && known?.isolation == .off ? nil : known
            let info = if let decoder { try decoder.info(of: data) } else { try ImageInfo(data) }
            guard let size = info.size else { return data.count }
            let result = try (options.target?.size(for: size) ?? size).byteCount()
            let second = isProcessed ? result : 0
            // The shared memory that becomes the picture, beside the helper's pixels.
            let shared = isApart ? result : 0
            if let decoder { return try decoder.memory(of: data, options) + shared + second }
            guard isApart else { return try size.byteCount() + size.byteCount() + second }
            return try memoryBeside(info, size) + result + shared + second
        } catch {
            return error == .imageTooLarge ? .max : data.count
        }
    }

    /// The memory of a decoder beside the result, by the header: some read a few rows at a time, others a whole picture.
    private func memoryBeside(_ info: ImageInfo, _ size: PixelSize) throws(DipperError) -> Int {
        let readsRows = (info.format == .jpeg || info.format == .png) && !info.isProgressive && !info.isAnimation
        return try readsRows ? 0 : size.byteCount()
    }
}
