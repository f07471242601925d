/// The answers that the store may give for a key after a power cut, derived from the recorded calls and their results.
struct Expectation {
    private(set) var versions: Set<UInt64> = []
    private(set) var mayBeMissing = true

    /// Returns the expectation for each key at a cut.
    ///
    /// - An acknowledged durable write, or a later write, is on disk, unless a removal, a clear or a write that is not
    ///   durable was requested afterwards; in that case the key may also be missing.
    /// - No version older than the last acknowledged durable one is found, and no version that was never written.
    /// - With a size limit any entry may be missing.
    static func all(_ recording: Recording, cut: Int) -> [String: Expectation] {
        var all: [String: Expectation] = [:]
        for case .writing(let key, _, _) in recording.notes { all[key] = Expectation() }
        for step in recording.steps[..<cut] {
            guard case .mark(let number) = step else { continue }
            switch recording.notes[number] {
            case .writing(let key, let version, let isDurable):
                all[key]?.versions.insert(version)
                if !isDurable { all[key]?.mayBeMissing = true }
            case .wrote(let key, let version, true): all[key] = Expectation(versions: [version], mayBeMissing: false)
            case .wrote(_, _, false): break
            case .removing(let key): all[key]?.mayBeMissing = true
            case .removingAll: for key in all.keys { all[key]?.mayBeMissing = true }
            }
        }
        if recording.limit != nil { for key in all.keys { all[key]?.mayBeMissing = true } }
        return all
    }
}
