import Foundation

/// Making objects, and previews of objects whose bytes are arriving.
extension ObjectCache {
    func make(
        _ id: ObjectNodeID, _ version: EntryVersion, _ steps: [Maker.Step], _ material: Graph.Material,
        _ want: ObjectWant
    ) {
        // What is made from an object comes first, so that few whole objects wait for their next step.
        let run =
            switch material {
            case .bytes(let bytes), .stored(let bytes): MakingRun([bytes.waiting], isNext: false)
            case .earlier(let form, let bytes): MakingRun([form.waiting, bytes.waiting], isNext: false)
            case .object: MakingRun([], isNext: true)
            }
        let work: @Sendable () -> Void = { self.make(id, version, steps, material, run) }
        // The requests may have ended meanwhile.
        let isWanted = driver.withLock { machine -> Bool in
            guard machine.graph.isMaking(id) else { return false }
            machine.running[.node(id)] = .making(run, nil)
            return true
        }
        guard isWanted else { return run.done() }
        // A place of the program's own may do the work at once.
        if let place = maker.place(for: steps) { return Afterwards.run { place(work) } }
        guard let number = queue.add(place(want, isNext: run.isNext), cost: cost(material, steps), work) else {
            run.done()
            return answer(.node(id)) { $0.makingFailed(id, .shutDown, isBroken: false, into: &$1) }
        }
        // The object may have been made already.
        driver.withLock { machine in
            if machine.running[.node(id)] != nil { machine.running[.node(id)] = .making(run, number) }
        }
    }

    private func cost(_ material: Graph.Material, _ steps: [Maker.Step]) -> (@Sendable () -> Int)? {
        { [maker] in
            switch material {
            case .bytes(let bytes): maker.workingCost(of: bytes.data, by: steps)
            case .stored(let bytes), .earlier(let bytes, _): maker.workingCost(of: bytes.data, by: [])
            // That of the object, and that of what is made from it.
            case .object(let parent): 2 * maker.cost(of: parent.product)
            }
        }
    }

    private func make(
        _ id: ObjectNodeID, _ version: EntryVersion, _ steps: [Maker.Step], _ material: Graph.Material,
        _ run: MakingRun
    ) {
        guard !run.isCancelled else { return run.done() }
        let result = Result { () throws(DipperError) -> Object in try object(version, steps, material, run) }
        // Before the callers' closures run, because they may wait for other objects.
        run.done()
        answer(.node(id)) { (graph: inout Graph, actions: inout [Action]) -> Void in
            switch result {
            case .success(let object): graph.made(id, object, into: &actions)
            case .failure(let error):
                let isBroken = error == .undecodable || error == .unsupportedFormat
                graph.makingFailed(id, error, isBroken: isBroken, into: &actions)
            }
        }
    }

    private func object(
        _ version: EntryVersion, _ steps: [Maker.Step], _ material: Graph.Material, _ run: MakingRun
    ) throws(DipperError) -> Object {
        switch material {
        case .bytes(let bytes):
            var object = Object(try maker.make(bytes.data, by: steps, task(bytes, run)), madeOf: bytes, version.info)
            object.excerpt = maker.excerpt(of: bytes.data, by: steps)
            return object
        case .stored(let bytes):
            let product = try maker.restore(bytes.data, of: steps, task(bytes, run))
            var object = Object(product, madeOf: bytes, version.info)
            object.form = bytes.data
            return object
        case .earlier(let form, let bytes):
            let product = try maker.restore(form.data, of: steps, task(bytes, run))
            var object = Object(product, madeOf: bytes, version.info)
            object.form = form.data
            return object
        case .object(let parent):
            let task = MakingTask(parent.key, call: parent.call, parent.events) { run.isCancelled }
            var object = parent.with(try maker.make(parent.product, by: steps, task))
            object.excerpt = parent.excerpt.flatMap { maker.excerpt(of: $0, by: steps) }
            return object
        }
    }

    private func task(_ bytes: Bytes, _ run: MakingRun) -> MakingTask {
        MakingTask(bytes.key, call: bytes.call, bytes.events) { run.isCancelled }
    }

    // MARK: Previews

    /// The previews of the bytes that a fetch brings. One is made at a time; the thread that receives bytes only notes
    /// them.
    struct Previews: Sendable {
        var scan = Maker.Scan()
        var isBusy = false
        /// The bytes received so far, if they have not been looked at.
        var arrived: Data?
    }

    /// Notes the bytes that have arrived.
    /// - Returns: `false` if there will never be a preview.
    func arrived(_ bytes: Data, for id: ObjectFetchID) -> Bool {
        let (isWanted, path, want, old) = driver.withLock { machine -> (Bool, [Maker.Step]?, ObjectWant?, Data?) in
            guard let fetch = machine.graph.fetches[id] else { return (false, nil, nil, nil) }
            let isPointless = machine.previews[id, default: Previews()].scan.isPointless
            guard !isPointless else { return (false, nil, nil, nil) }
            let old = exchange(&machine.previews[id, default: Previews()].arrived, with: bytes)
            guard machine.previews[id]?.isBusy == false, let path = machine.graph.previewPaths(of: id).first else {
                return (true, nil, nil, old)
            }
            machine.previews[id]?.isBusy = true
            return (true, path, fetch.crowd.want, old)
        }
        withExtendedLifetime(old) {}
        guard let path, let want else { return isWanted }
        let run: @Sendable () -> Void = { self.makePreviews(id) }
        let cost: @Sendable () -> Int = { [maker] in maker.workingCost(of: bytes, by: path) }
        if let place = maker.place(for: path) {
            place(run)
        } else if queue.add(place(ObjectWant(want.queue, .low)), cost: cost, run) == nil {
            driver.withLock { $0.previews[id]?.isBusy = false }
        }
        return true
    }

    /// Makes previews from the bytes that have arrived, and from those that arrive meanwhile.
    private func makePreviews(_ id: ObjectFetchID) {
        while let (bytes, looked, paths) = nextPreview(id) {
            var scan = looked
            let length = scan.preview(in: bytes)
            driver.withLock { [scan] in $0.previews[id]?.scan = scan }
            guard let length else { continue }
            for path in paths {
                let task = MakingTask(CacheKey("")) { [weak self] in
                    self?.driver.withLock { $0.graph.fetches[id] == nil } ?? true
                }
                guard let product = maker.preview(bytes.prefix(length), by: path, task) else { continue }
                let info = EntryInfo(url: "", stored: 0)
                apply { $0.previewed(id, path, Object(product, info, .network), into: &$1) }
            }
        }
    }

    private func nextPreview(_ id: ObjectFetchID) -> (Data, Maker.Scan, [[Maker.Step]])? {
        driver.withLock { machine in
            guard var previews = machine.previews[id], let bytes = exchange(&previews.arrived, with: nil) else {
                machine.previews[id]?.isBusy = false
                return nil
            }
            machine.previews[id] = previews
            return (bytes, previews.scan, machine.graph.previewPaths(of: id))
        }
    }
}
