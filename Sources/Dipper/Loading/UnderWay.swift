/// The pictures that are being looked for on disk, or made. A value: who asks for one that is under way finds it, also at
/// the moment at which the look at the disk becomes the making of the picture.
struct UnderWay {
    /// Those who wait for a look at the disk, by the name of the picture in memory.
    private var looks: [CacheKey: [ImageTask]] = [:]
    /// Pictures that are being made. The latest work for a name counts, an older one goes on for those who wait for it.
    private(set) var works: [CacheKey: DecodeWork] = [:]

    /// What a call does next.
    enum Step {
        /// It joins this work, if that will do.
        case join(DecodeWork)
        /// It waits for the look at the disk that another call has begun.
        case wait
        /// It is the first, and looks.
        case look
        /// It asks for the bytes.
        case fetch
    }

    /// A call begins.
    /// - Parameters:
    ///   - looks: whether the call looks at the disk for a picture that is processed already.
    ///   - refused: a work that will not do for it.
    mutating func enter(_ task: ImageTask, looks isLooking: Bool, refused: DecodeWork?) -> Step {
        if let work = works[task.memoryKey], work !== refused { return .join(work) }
        guard isLooking else { return .fetch }
        looks[task.memoryKey, default: []].append(task)
        return looks[task.memoryKey]?.count == 1 ? .look : .wait
    }

    /// Those who wait for a look at the disk by now.
    func lookers(for key: CacheKey) -> [ImageTask] { looks[key] ?? [] }

    /// The look has come to its end: in the same moment the work that follows takes its place.
    /// - Returns: those who waited.
    mutating func looked(for key: CacheKey, _ work: DecodeWork?) -> [ImageTask] {
        if let work, works[key] == nil { works[key] = work }
        return looks.removeValue(forKey: key) ?? []
    }

    /// Puts work in the place of another one, or of none; not if there is a third meanwhile.
    mutating func put(_ work: DecodeWork, insteadOf other: DecodeWork?) -> Bool {
        guard works[work.memoryKey] === other else { return false }
        works[work.memoryKey] = work
        return true
    }

    /// - Returns: the work, if no newer work has taken its place.
    mutating func remove(_ work: DecodeWork) -> DecodeWork? {
        works[work.memoryKey] === work ? works.removeValue(forKey: work.memoryKey) : nil
    }
}
