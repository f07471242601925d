/// The interface that prefetchers use.
extension DataCache {
    /// The queue on which closures run that belong to no request.
    package var callbackQueue: CallbackQueue { defaults.callbackQueue }

    /// Runs work that may block for as long as the disk takes, on a reader's thread.
    package func runOnReader(_ work: @escaping @Sendable () -> Void) { store.runOnReader(work) }

    /// Returns whether the entry of a key is a fresh success that answers a request without the network. Reads no body.
    package func answers(_ request: DataRequest, under key: CacheKey) -> Bool {
        let policy = policy(of: request)
        guard policy != .ignoreCache, policy != .bypass else { return false }
        guard
            let info = store.memory.part(of: key, { $0.info }) ?? (policy.readsDisk ? store.disk?.info(of: key) : nil)
        else { return false }
        return info.mayBeShown(to: request.headers) && use(of: info, for: request) == .fresh
    }
}

extension Result where Failure == DipperError {
    package var error: DipperError? {
        if case .failure(let error) = self { error } else { nil }
    }
}
