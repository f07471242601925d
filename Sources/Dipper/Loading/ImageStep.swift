import DipperData

/// A step by which a picture is made: decoding, then all processors of a request.
struct ImageStep: ObjectStep {
    let isDecoding: Bool
    /// The options of the request whose step this is. Steps with the same part of the key make the same picture.
    let options: ResolvedOptions

    /// The part of the picture's key.
    var keySuffix: String { isDecoding ? options.decodingSuffix : options.keySuffix }

    /// The decoder makes a smaller size in one go.
    func folds(into first: ImageStep) -> Bool { options.isDecodedSmaller }

    /// Only a processed picture has a file of its own.
    var isStored: Bool { !isDecoding }

    static func == (a: Self, b: Self) -> Bool {
        a.isDecoding == b.isDecoding && (a.options === b.options || a.keySuffix == b.keySuffix)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(isDecoding)
        hasher.combine(keySuffix)
    }
}

extension ResolvedOptions {
    /// The steps that make the picture.
    var path: [ImageStep] {
        chain.processors.isEmpty ? original : original + [ImageStep(isDecoding: false, options: self)]
    }

    /// The steps that make the picture without processors.
    var original: [ImageStep] { [ImageStep(isDecoding: true, options: self)] }
}
