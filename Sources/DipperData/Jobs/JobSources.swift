import Foundation

/// The sources of a job: the one that is asked, those that are left, and those that have failed.
struct JobSources: Sendable {
    /// The call whose URL, header fields and expirations are the job's: the call that made the job, until another
    /// one takes its place.
    private(set) var lead: Call
    /// The number of the source that is asked: 0 for the request's own, then its alternatives.
    private var number = 0
    private(set) var earlierFailures: [DipperError] = []
    /// The calls none of whose sources had the bytes.
    private var exhausted: [Call] = []
    /// The URL whose host could not be reached when the last attempt failed.
    var unreachable: URL?

    init(_ lead: Call) { self.lead = lead }

    /// The source that is asked now; `nil` if there is none left.
    private var asked: DataRequest.Source? {
        guard number > 0 else { return lead.request.source }
        let alternatives = lead.request.alternatives
        return number <= alternatives.count ? alternatives[number - 1] : nil
    }

    /// The provider that is asked now; `nil` if the source is a URL.
    var provider: (any DataProvider)? { asked?.provider }

    /// The URL that is asked now; `nil` if there is no source left.
    var url: URL? { asked.flatMap { $0.url ?? Self.noURL } }

    /// The URL that stands for a provider.
    private static let noURL = URL(string: "provider:")

    /// The sources that have not been asked yet.
    var remaining: ArraySlice<DataRequest.Source> {
        lead.request.hasHooks ? lead.request.alternatives.dropFirst(number) : []
    }

    /// Whether the source stands in for others that have failed. Such a source has its bytes at hand anyway, and they
    /// are not the bytes that the others would have brought.
    var isStandIn: Bool { number > 0 && lead.isLocal(number) }

    /// Puts a call in the lead that accepts the answer of the present source.
    /// - Returns: the call that has led until now, to be released without a lock.
    mutating func follow(_ call: Call) -> Call { exchange(&lead, with: call) }

    /// Begins again for a call that the last answer was not for.
    mutating func begin(anewFor call: Call) {
        lead = call
        number = 0
        earlierFailures = []
    }

    /// Turns to the next source, after the present one has failed.
    /// - Parameter waiting: the calls that wait for the job. Calls that have joined it may have alternatives of their
    ///   own.
    /// - Returns: false if there is no source left.
    mutating func goOn(for waiting: [Call], after failure: DipperError) -> Bool {
        if remaining.isEmpty {
            exhausted.append(lead)
            let other = waiting.first { call in call.hasStandIns && !exhausted.contains { $0 === call } }
            guard let other else { return false }
            lead = other
            number = 0
        }
        number += 1
        var plain = failure
        plain.earlier = []
        earlierFailures.append(plain)
        unreachable = nil
        return true
    }
}
