import DipperData
import Foundation
import Logging

/// The cache of pictures that an image cache is built on.
typealias ImageObjects = ObjectCache<ImageMaker>

/// The rules by which pictures are made: decoded, processed, and written as files.
struct ImageMaker: ObjectMaker {
    let codecs: CodecRegistry
    let limits: DecodeLimits
    let backlog: DecodeBacklog
    let logger: Logger
    let redaction: Redaction
    /// The options of a picture without changes.
    let plain: ResolvedOptions

    // MARK: Making

    func make(_ data: Data, by steps: [ImageStep], _ task: MakingTask) throws(DipperError) -> Image {
        guard let last = steps.last else { throw .undecodable }
        var decode = last.options.decodeOptions(limits, isCancelled: task.isCancelled)
        if last.isDecoding { decode = decode.whole }
        let image = try task.decode { () throws(DipperError) in try codecs.decode(data, decode) }
        return last.isDecoding ? image : try process(image, last.options, task)
    }

    func make(_ parent: Image, by steps: [ImageStep], _ task: MakingTask) throws(DipperError) -> Image {
        guard let last = steps.last, !last.isDecoding else { return parent }
        let scale = last.options.chain.usesScale ? last.options.options.scale : nil
        return try process(parent.at(scale: scale ?? 1), last.options, task)
    }

    private func process(_ image: Image, _ options: ResolvedOptions, _ task: MakingTask) throws(DipperError) -> Image {
        var context = ProcessingContext(limits: limits, isCancelled: task.isCancelled)
        // An animation keeps the context, which must not keep the bytes.
        context.onStep = { [tell = task.tellStep] in tell($0.identifier) }
        return try options.chain.process(image, context)
    }

    /// Decodes a file that is already processed, in its own size.
    func restore(_ file: Data, of path: [ImageStep], _ task: MakingTask) throws(DipperError) -> Image {
        guard let options = path.last?.options else { throw .undecodable }
        var decode = options.decodeOptions(limits, isCancelled: task.isCancelled)
        decode.target = nil
        return try task.decode { () throws(DipperError) in try codecs.decode(file, decode) }
    }

    typealias Scan = ProgressiveJPEG

    func preview(_ data: Data, by steps: [ImageStep], _ task: MakingTask) -> Image? {
        guard let options = steps.last?.options else { return nil }
        var decode = options.decodeOptions(limits, isCancelled: task.isCancelled)
        decode.allowsPartial = true
        guard let image = try? codecs.decode(data, decode) else { return nil }
        return try? options.chain.process(image, ProcessingContext(limits: limits, isCancelled: task.isCancelled))
    }

    func place(for path: [ImageStep]) -> (@Sendable (@escaping @Sendable () -> Void) -> Void)? {
        guard let queue = path.last?.options.options.processingQueue, !queue.isInPlace else { return nil }
        return queue.perform
    }

    func workingCost(of data: Data, by steps: [ImageStep]) -> Int {
        DecodeCost.bytes(of: data, steps.last?.options)
    }

    func note(waiting bytes: Int) { backlog.take(bytes) }

    // MARK: Keeping

    func cost(of image: Image) -> Int { image.footprint }

    func key(of bytes: CacheKey, _ path: [ImageStep]) -> CacheKey {
        let suffix = path.last?.keySuffix ?? ""
        return suffix.isEmpty ? bytes : CacheKey(verbatim: bytes.string + suffix)
    }

    /// A picture that was added without processors is the original of all pictures of its key.
    func addedPath(for path: [ImageStep]) -> [ImageStep] { path.count == 1 ? plain.original : path }

    func keepsInMemory(_ contexts: [ResolvedOptions], isUrgent: Bool) -> Bool {
        isUrgent || contexts.contains { $0.options.prefetchesToMemory != false }
    }

    func dropsBytes(_ contexts: [ResolvedOptions]) -> Bool {
        contexts.allSatisfy { $0.options.keepsOriginal == false }
    }

    /// A file is made of a picture and, by some serializers, of the whole original. A write that waits keeps no more of
    /// it in memory than it needs.
    func excerpt(of data: Data, by path: [ImageStep]) -> Data? {
        guard let last = path.last, !last.isDecoding else { return data }
        let serializer = last.options.options.serializer ?? .automatic
        return serializer.readsOriginal ? data : Data(data.prefix(CodecRegistry.sniffLength))
    }

    func needsBytes(_ path: [ImageStep], _ context: ResolvedOptions?) -> Bool {
        (context ?? path.last?.options)?.options.serializer?.readsOriginal == true
    }

    func form(
        of image: Image, madeOf original: Data?, by path: [ImageStep], _ context: ResolvedOptions?
    ) throws(DipperError) -> Data {
        let options = context ?? path.last?.options
        return try (options?.options.serializer ?? .automatic).data(for: image, madeOf: original, codecs)
    }

    func note(_ error: any Error, writing key: CacheKey) {
        logger.info(
            "not kept", metadata: ["key": "\(redaction.text(key))", "error": "\(redaction.sentence("\(error)"))"])
    }
}

extension ProgressiveJPEG: PreviewScan {
    package var isPointless: Bool { isProgressive == false }
}

extension DecodeOptions {
    /// The options that decode the whole picture, for all that is made from it.
    fileprivate var whole: DecodeOptions {
        var options = self
        options.target = nil
        options.scale = 1
        return options
    }
}
