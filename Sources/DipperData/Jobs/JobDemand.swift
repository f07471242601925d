/// The demands on a job: those of all calls that have joined it.
struct JobDemand: Sendable {
    /// Whether a call accepts only what the network says now.
    private(set) var insistsOnNetwork = false
    private(set) var keepsOnDisk = false
    /// Whether a call wants the result to be kept at all.
    private(set) var keepsInMemory = false
    /// The strongest durability that a call wants.
    private(set) var durability = Durability.relaxed
    private(set) var hasTimeLimits = false

    mutating func add(_ call: Call) {
        if call.insistsOnNetwork { insistsOnNetwork = true }
        if call.keepsOnDisk { keepsOnDisk = true }
        if call.keepsInMemory { keepsInMemory = true }
        if call.request.durability == .durable { durability = .durable }
        if call.timeout != nil { hasTimeLimits = true }
    }
}
