/// The work below the engine and beside it: decodes, steps, writes, removals, conditions.
extension EventHub {
    /// Decodes bytes, and tells the begin and the end.
    /// - Parameters:
    ///   - key: the key of the bytes.
    ///   - call: the call that has brought them; `nil` if none has.
    package func decode<Object>(
        _ key: CacheKey, of call: CacheEvent.ID?, _ body: () throws(DipperError) -> Object
    ) throws(DipperError) -> Object {
        guard wants([.objects, .failures]) else { return try body() }
        let id = CacheEvent.ID.next()
        tell(.objects, key, id, of: call, .decodeBegan)
        do throws(DipperError) {
            let product = try body()
            tell(.objects, key, id, of: call, .decodeEnded(nil))
            return product
        } catch {
            tell([.objects, .failures], key, id, of: call, .decodeEnded(error))
            throw error
        }
    }

    /// Tells the begin of a processing step.
    /// - Parameters:
    ///   - key: the key of the bytes that the object is made from.
    ///   - name: the identifier of the step.
    ///   - call: the call that has brought the bytes; `nil` if none has.
    /// - Returns: a closure that tells the end; `nil` if no sink wants it.
    package func beginStep(
        _ key: CacheKey, _ name: @autoclosure () -> String, of call: CacheEvent.ID?
    ) -> (@Sendable (DipperError?) -> Void)? {
        guard wants([.objects, .failures]) else { return nil }
        let id = CacheEvent.ID.next()
        tell(.objects, key, id, of: call, .stepBegan(Redaction.standard.text(name())))
        return { [self] error in
            tell(error == nil ? .objects : [.objects, .failures], key, id, of: call, .stepEnded(error))
        }
    }

    /// Tells the begin of a write.
    /// - Parameters:
    ///   - work: the job that the entry comes from; `nil` if the program has added it.
    ///   - whenDone: the closure that waits for the end.
    /// - Returns: the closure to call at the end, which tells the end as well.
    func beginWrite(
        _ key: CacheKey, _ bytes: Int, of work: CacheEvent.ID?, _ whenDone: (@Sendable (Bool) -> Void)?
    ) -> (@Sendable (Bool) -> Void)? {
        guard wants(.writes) else { return whenDone }
        let id = CacheEvent.ID.next()
        tell(.writes, key, id, of: work, .writeBegan(bytes: bytes))
        return { [self] isOnDisk in
            tell(.writes, key, id, of: work, .writeEnded(isOnDisk: isOnDisk))
            whenDone?(isOnDisk)
        }
    }

    func cleaned(_ cleaning: CacheEvent.Cleaning) {
        let isPressed = cleaning.reason == .memoryPressure
        tell(isPressed ? [.removals, .conditions] : .removals, CacheKey(""), nil, .cleaned(cleaning))
    }

    func pressed(_ level: MemoryPressure) {
        metrics.pressed(level)
        tell(.conditions, CacheKey(""), nil, .memoryPressure(level))
    }

    func networkChanged() { tell(.conditions, CacheKey(""), nil, .networkChanged) }

    // MARK: Calls

    /// Tells a call that no call for bytes stands for, from begin to end.
    func call(_ key: CacheKey, _ queue: FetchQueue, _ result: Result<ResponseSource, DipperError>) {
        let id = wants(.calls) ? CacheEvent.ID.next() : nil
        tell(.calls, key, id, .callBegan(queue))
        callEnded(key, id, result)
    }

    @inline(__always)
    func callEnded(
        _ key: @autoclosure () -> CacheKey, _ id: @autoclosure () -> CacheEvent.ID?,
        _ result: Result<ResponseSource, DipperError>
    ) {
        switch result {
        case .success(let source):
            statistics.answered(source)
            metrics.answered(source)
            tell(.calls, key(), id(), .callAnswered(source))
        case .failure(let error):
            statistics.failures.add(1, ordering: .relaxed)
            metrics.failed(error)
            tell(.calls, key(), id(), .callFailed(error))
        }
    }
}
