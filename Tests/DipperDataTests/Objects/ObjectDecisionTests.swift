import Testing

@testable import DipperData

@Suite("ObjectGraph: which source is asked for, previews, and objects that are kept", .timeLimit(.minutes(1)))
struct ObjectDecisionTests {
    // MARK: Decisions

    @Test("a request with a smaller source asks first whether the larger one is there, once for each object")
    func decision() {
        var bench = ObjectBench()
        bench.ask(1, "a", isDecided: false)
        bench.ask(2, "a", isDecided: false)
        #expect(bench.takeLog() == ["decide k fast"])
        bench.decided(isThere: true)
        #expect(bench.takeLog() == ["k for [1]", "look k a fast", "k for [2]"])
        bench.miss("a")
        bench.fetched(1)
        bench.made("v1a")
        #expect(bench.takeLog().last == "deliver v1a to [1, 2]")
        #expect(bench.isEmpty)
    }

    @Test("if it is not there, the smaller one is fetched, and the request is known by both keys")
    func smaller() {
        var bench = ObjectBench()
        bench.ask(1, "a", isDecided: false)
        bench.decided(isThere: false)
        bench.miss("a")
        #expect(bench.takeLog() == ["decide k fast", "small for [1]", "look small a fast", "fetch small fast"])
        for key in ["k", "small"] { #expect(bench.graph.requests(for: key).count == 1) }
        bench.event { $0.demote("k", into: &$1) }
        #expect(bench.takeLog() == ["move fetch small slow 50", "tell slow to [1]"])
        bench.event { $0.cancel(key: "k", into: &$1) }
        #expect(bench.takeLog() == ["cancelled to [1]", "drop fetch small"])
        #expect(bench.isEmpty)
    }

    @Test("a decision is dropped with its last request, also of one that does not look at the tiers")
    func cancelledDecision() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false, isDecided: false)
        bench.cancel(1)
        #expect(bench.takeLog() == ["decide k fast", "cancelled to [1]", "drop decision"])
        bench.ask(2, "a", looks: false, isDecided: false)
        bench.decided(isThere: true)
        #expect(bench.takeLog().suffix(2) == ["k for [2]", "fetch k fast"])
    }

    // MARK: Holds

    @Test("what an urgent search keeps is let go of when the fetch has begun, not before")
    func holdUntilFetch() throws {
        var bench = ObjectBench()
        bench.ask(1, "ab")
        let search = try #require(bench.graph.searches.keys.first)
        bench.event { graph, _ in graph.keep("reservation", for: search) }
        _ = bench.takeLog()
        bench.miss("ab", "a")
        #expect(bench.takeLog() == ["look k a fast", "fetch k fast", "release reservation"])
        bench.fetched(1)
        bench.made("v1a")
        bench.made("v1ab")
        #expect(bench.isEmpty)
    }

    @Test("it goes with the search when that is cancelled, and when an object is found")
    func holdDropped() throws {
        for isFound in [false, true] {
            var bench = ObjectBench()
            bench.ask(1, "a")
            let search = try #require(bench.graph.searches.keys.first)
            bench.event { graph, _ in graph.keep("reservation", for: search) }
            if isFound { bench.found("a", .object("v1a", 1)) }
            #expect(bench.takeLog().contains("release reservation") == isFound)
            // The search itself keeps it.
            bench.cancel(1)
            #expect(bench.graph.searches.isEmpty)
            #expect(bench.isEmpty)
        }
    }

    @Test("it is let go of as soon as no fetch follows, not when the object is made")
    func holdUnneeded() throws {
        var bench = ObjectBench()
        bench.ask(1, "a1")
        let search = try #require(bench.graph.searches.keys.first)
        bench.event { graph, _ in graph.keep("reservation", for: search) }
        bench.found("a1", .stored("v1a1", 1))
        #expect(bench.takeLog().suffix(2) == ["release reservation", "make v1a1 by a1 from stored fast"])
    }

    @Test("a search that is no longer urgent gives it back")
    func holdTaken() throws {
        var bench = ObjectBench()
        bench.ask(1, "a")
        let search = try #require(bench.graph.searches.keys.first)
        bench.event { graph, _ in graph.keep("reservation", for: search) }
        #expect(bench.graph.takeHold(of: search) == ["reservation"])
        #expect(bench.graph.takeHold(of: search).isEmpty)
    }

    // MARK: News and previews

    @Test("a fetch is listened to once somebody wants its news, and only for what they want")
    func listening() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.ask(2, "a", looks: false, interest: .progress)
        bench.ask(3, "a", looks: false, interest: [.progress, .previews])
        #expect(
            bench.takeLog() == ["fetch k fast", "listen to fetch k for progress", "listen to fetch k for previews"])
        bench.told(.progress(TaskProgress(received: 5, expected: 9)))
        bench.told(.retry)
        #expect(bench.takeLog() == ["tell 5 to [2, 3]", "tell retry to [1, 2, 3]"])
    }

    @Test("a preview is shown to those who want one of the same object; who comes later sees the last at once")
    func previews() throws {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false, interest: .previews)
        bench.ask(2, "ab", looks: false, interest: .previews)
        bench.ask(3, "a", looks: false)
        let fetch = try #require(bench.graph.fetches.keys.first)
        #expect(bench.graph.previewPaths(of: fetch).map(\.letters) == ["a", "ab"])
        _ = bench.takeLog()
        bench.event { $0.previewed(fetch, [TextKind.Step](letters: "a"), "coarse", into: &$1) }
        #expect(bench.takeLog() == ["show coarse to [1]"])
        bench.ask(4, "a", looks: false, interest: .previews)
        #expect(bench.takeLog() == ["show coarse to [4]"])
        bench.fetched(1)
        bench.event { $0.previewed(fetch, [TextKind.Step](letters: "a"), "late", into: &$1) }
        #expect(!bench.takeLog().contains { $0.hasPrefix("show") })
    }

    // MARK: Earlier objects

    @Test("an object in memory that was made of the same bytes is delivered and kept anew, not made again")
    func present() throws {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.ask(2, "ab", looks: false)
        let fetch = try #require(bench.graph.fetches.keys.first)
        bench.event { graph, actions in
            graph.fetched(
                fetch, "v1", 1, isStored: false, present: [[TextKind.Step](letters: "a"): "old a"], into: &actions)
        }
        #expect(
            bench.takeLog() == [
                "fetch k fast", "keep old a", "deliver old a to [1]", "make old ab by b from parent fast",
            ])
        bench.made("old ab")
        #expect(bench.isEmpty)
    }

    @Test("the stored form of earlier bytes serves if the bytes are the same, and is written anew; otherwise not")
    func earlierForm() {
        for version in [1, 2] {
            var bench = ObjectBench()
            bench.ask(1, "a1")
            bench.found("a1", .outdated("v1a1"))
            bench.miss("a")
            bench.fetched(version)
            let isSame = version == 1
            #expect(
                bench.takeLog().last == (isSame ? "make v1a1 by a1 from stored fast" : "make v2a by a from bytes fast"))
            if !isSame { bench.made("v2a") }
            bench.made("v\(version)a1")
            #expect(bench.takeLog().last == "write v\(version)a1")
            bench.written("v\(version)a1")
            #expect(bench.isEmpty)
        }
    }

    @Test("a stored form of earlier bytes that cannot be read is removed, and the bytes are fetched again")
    func brokenForm() {
        var bench = ObjectBench()
        bench.ask(1, "a1")
        bench.found("a1", .outdated("v1a1"))
        bench.miss("a")
        bench.fetched(1)
        bench.failed("v1a1")
        #expect(bench.takeLog().suffix(2) == ["discard k a1", "fetch k fast"])
        bench.fetched(1)
        #expect(bench.takeLog() == ["make v1a by a from bytes fast"])
    }

    @Test("bytes that were asked for anew take the place of what was made before, once something is made of them")
    func superseded() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.fetched(1)
        bench.ask(2, "ab", manner: 1, looks: false)
        bench.event { graph, actions in
            guard let fetch = graph.fetches.keys.first else { return }
            graph.fetched(fetch, "v2", 2, isStored: false, isNewest: true, into: &actions)
        }
        _ = bench.takeLog()
        bench.made("v2a")
        #expect(bench.takeLog() == ["purge k", "make v2ab by b from parent fast"])
        bench.made("v1a")
        #expect(bench.takeLog() == ["deliver v1a to [1]"], "what was made of the earlier bytes is not kept")
        bench.made("v2ab")
        #expect(bench.takeLog() == ["keep v2ab", "deliver v2ab to [2]"])
        #expect(bench.isEmpty)
    }

    @Test("bytes that were asked for anew before an addition take nothing of it away")
    func overtaken() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.event { graph, actions in
            guard let fetch = graph.fetches.keys.first else { return }
            graph.fetched(fetch, "v1", 1, isStored: false, isNewest: true, into: &actions)
        }
        bench.event { graph, actions in
            graph.add("new", 9, at: [TextKind.Step](letters: "a"), for: TextKind.Origin(key: "k"), into: &actions)
        }
        _ = bench.takeLog()
        bench.made("v1a")
        #expect(bench.takeLog() == ["deliver v1a to [1]"])
        #expect(bench.graph.beingWritten([TextKind.Step](letters: "a"), of: "k")?.object == "new")
    }

    // MARK: Keeping

    @Test("what is about to be kept is not kept after a removal from memory")
    func removedBeforeKept() throws {
        let path = [TextKind.Step](letters: "a")
        for removal in ["none", "object", "bytes"] {
            var graph = ObjectBench.Graph()
            var actions: [ObjectBench.Graph.Action] = []
            _ = graph.ask(1, TextKind.Origin(key: "k"), path, ObjectWant(.fast), looks: false, into: &actions)
            let fetch = try #require(graph.fetches.keys.first)
            graph.fetched(fetch, "v1", 1, isStored: false, into: &actions)
            graph.made(try #require(graph.nodes.keys.first), "v1a", into: &actions)
            let keep = try #require(graph.keeps.keys.first)
            if removal == "object" { graph.remove(path, of: "k", from: .memory, into: &actions) }
            if removal == "bytes" { graph.remove("k", from: .memory, into: &actions) }
            #expect(graph.mayKeep(keep) == (removal == "none"))
            graph.kept(keep)
            #expect(graph.members.isEmpty)
        }
    }

    @Test("an object removed while its bytes are fetched is delivered, and neither kept nor written")
    func removedEarly() {
        var bench = ObjectBench()
        bench.ask(1, "a1", looks: false)
        bench.event { $0.remove([TextKind.Step](letters: "a1"), of: "k", from: .all, into: &$1) }
        bench.fetched(1)
        bench.made("v1a")
        bench.made("v1a1")
        #expect(bench.takeLog().suffix(2) == ["make v1a1 by 1 from parent fast", "deliver v1a1 to [1]"])
        #expect(bench.isEmpty)
    }

    @Test("a request that comes after the removal of one object has an object of its own, which is kept")
    func askedAfterRemoval() {
        var bench = ObjectBench()
        bench.ask(1, "a1", looks: false)
        bench.event { $0.remove([TextKind.Step](letters: "a1"), of: "k", from: .all, into: &$1) }
        bench.ask(2, "a1", looks: false)
        bench.fetched(1)
        bench.made("v1a")
        _ = bench.takeLog()
        bench.made("v1a1")
        #expect(bench.takeLog() == ["keep v1a1", "deliver v1a1 to [2]", "write v1a1"])
    }

    @Test("a request after a removal is answered though the stored form that is being read is all there is")
    func askedAfterRemovalOfForm() {
        var bench = ObjectBench()
        bench.ask(1, "a1")
        bench.event { $0.remove([TextKind.Step](letters: "a1"), of: "k", from: .memory, into: &$1) }
        bench.found("a1", .stored("v1a1", 1))
        bench.ask(2, "a1")
        #expect(bench.takeLog().last == "look k a1 fast", "the object under way is no answer")
        // Two looks at the disk have found the same.
        bench.found("a1", .stored("v1a1", 1))
        bench.made("v1a1")
        #expect(bench.takeLog().suffix(2) == ["deliver v1a1 to [1, 2]"] || bench.graph.requests.isEmpty)
    }

    @Test("an object at hand is delivered to the request before a removal and to the one after it")
    func presentAfterRemoval() throws {
        var bench = ObjectBench()
        let path = [TextKind.Step](letters: "a1")
        bench.ask(1, "a1", looks: false)
        bench.event { $0.remove(path, of: "k", from: .disk, into: &$1) }
        bench.ask(2, "a1", looks: false)
        let fetch = try #require(bench.graph.fetches.keys.first)
        bench.event { $0.fetched(fetch, "v1", 1, isStored: false, present: [path: "old a1"], into: &$1) }
        #expect(bench.takeLog().contains("deliver old a1 to [1]"))
        bench.made("v1a")
        bench.made("v1a1")
        #expect(bench.takeLog().contains("deliver v1a1 to [2]") && bench.graph.requests.isEmpty)
    }

    @Test("a request that must be on disk fails if its object is removed while it is made")
    func requiredAndRemoved() {
        var bench = ObjectBench()
        bench.ask(1, "a1", storing: .required, looks: false)
        bench.fetched(1)
        bench.event { $0.remove([TextKind.Step](letters: "a1"), of: "k", from: .all, into: &$1) }
        bench.made("v1a")
        bench.made("v1a1")
        #expect(bench.takeLog().last == "not written to [1]")
    }

    @Test("an object removed from memory alone goes to disk, and from there is taken out of the data's memory")
    func removedFromMemory() {
        var bench = ObjectBench()
        bench.ask(1, "a1", looks: false)
        bench.fetched(1)
        bench.event { $0.remove([TextKind.Step](letters: "a1"), of: "k", from: .memory, into: &$1) }
        bench.made("v1a")
        bench.made("v1a1")
        #expect(bench.takeLog().suffix(2) == ["deliver v1a1 to [1]", "write v1a1"])
        bench.written("v1a1")
        #expect(bench.takeLog() == ["discard k a1"])
    }

    @Test("what versions are removed by their age is neither kept nor written")
    func removedVersions() {
        var bench = ObjectBench()
        for (key, version) in [("old", 1), ("new", 2)] {
            bench.ask(version, "a1", of: key, looks: false)
            bench.fetched(key, version)
        }
        bench.event { $0.removeAll(where: { $0 < 2 }, into: &$1) }
        for version in [1, 2] {
            bench.made("v\(version)a")
            _ = bench.takeLog()
            bench.made("v\(version)a1")
            let isOld = version == 1
            #expect(
                bench.takeLog()
                    == (isOld ? ["deliver v1a1 to [1]"] : ["keep v2a1", "deliver v2a1 to [2]", "write v2a1"]))
        }
    }
}
