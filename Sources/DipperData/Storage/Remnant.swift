/// A trace of an earlier attempt that brought no entry.
enum Remnant: Sendable {
    case partial(PartialBody)
    case failure(EntryInfo)

    init?(_ kept: StoredData) {
        if kept.info.status >= 400 {
            self = .failure(kept.info)
        } else if let partial = PartialBody(kept) {
            self = .partial(partial)
        } else {
            return nil
        }
    }

    var partial: PartialBody? { if case .partial(let partial) = self { partial } else { nil } }
    var failure: EntryInfo? { if case .failure(let info) = self { info } else { nil } }
}
