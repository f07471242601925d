import Testing

@testable import DipperData

@Suite("The rules of the object graph", .timeLimit(.minutes(1)))
struct ObjectGraphTests {
    @Test("a request looks for its object, then for the nearest ancestor, then for the bytes")
    func order() {
        var bench = ObjectBench()
        bench.ask(1, "ab")
        #expect(bench.takeLog() == ["look k ab fast"])
        bench.miss("ab")
        #expect(bench.takeLog() == ["look k a fast"])
        bench.miss("a")
        #expect(bench.takeLog() == ["fetch k fast"])
        bench.fetched(7)
        #expect(bench.takeLog() == ["make v7a by a from bytes fast"])
        bench.made("v7a")
        #expect(bench.takeLog() == ["make v7ab by b from parent fast"])
        bench.made("v7ab")
        #expect(bench.takeLog() == ["keep v7ab", "deliver v7ab to [1]"])
        #expect(bench.isEmpty)
    }

    @Test("an object in memory is delivered at once and is not kept again")
    func memoryHit() {
        var bench = ObjectBench()
        bench.ask(1, "a")
        bench.ask(2, "a")
        bench.found("a", .object("v1a", 1))
        #expect(bench.takeLog() == ["look k a fast", "deliver v1a to [1]", "deliver v1a to [2]"])
        #expect(bench.isEmpty)
    }

    @Test("an ancestor in memory saves the bytes")
    func ancestorHit() {
        var bench = ObjectBench()
        bench.ask(1, "abc")
        bench.miss("abc", "ab")
        bench.found("a", .object("v1a", 1))
        #expect(bench.takeLog().last == "make v1ab by b from parent fast")
        bench.made("v1ab")
        bench.made("v1abc")
        #expect(bench.takeLog().last == "deliver v1abc to [1]")
        #expect(bench.isEmpty)
    }

    @Test("requests for one object share a search, a fetch and a node")
    func sharing() {
        var bench = ObjectBench()
        bench.ask(1, "a")
        bench.ask(2, "a")
        bench.miss("a")
        bench.ask(3, "a", looks: false)
        bench.fetched(1)
        bench.made("v1a")
        #expect(
            bench.takeLog() == [
                "look k a fast", "fetch k fast", "make v1a by a from bytes fast", "keep v1a",
                "deliver v1a to [1, 2, 3]",
            ])
        #expect(bench.isEmpty)
    }

    @Test("requests that share a prefix of steps share its work")
    func sharedPrefix() {
        var bench = ObjectBench()
        for (waiter, path) in [(1, "ab"), (2, "ac"), (3, "a")] { bench.ask(waiter, path, looks: false) }
        bench.fetched(1)
        bench.made("v1a")
        #expect(
            bench.takeLog() == [
                "fetch k fast", "make v1a by a from bytes fast", "keep v1a", "deliver v1a to [3]",
                "make v1ab by b from parent fast", "make v1ac by c from parent fast",
            ])
        bench.made("v1ab")
        bench.made("v1ac")
        #expect(bench.isEmpty)
    }

    @Test("an object stays at hand as long as others are made from it")
    func parentAtHand() {
        var bench = ObjectBench()
        bench.ask(1, "ab", looks: false)
        bench.fetched(1)
        bench.made("v1a")
        _ = bench.takeLog()
        bench.ask(2, "ac")
        #expect(bench.takeLog() == ["look k ac fast beside [1]"])
        bench.found("ac", .underWay(1))
        #expect(bench.takeLog() == ["make v1ac by c from parent fast"])
    }

    @Test("fetches of different requests that bring one version share the objects made from it")
    func oneVersion() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.ask(2, "a", manner: 1, looks: false)
        #expect(bench.takeLog() == ["fetch k fast", "fetch k1 fast"])
        bench.fetched("k", 1)
        bench.fetched("k1", 1)
        bench.made("v1a")
        #expect(
            bench.takeLog() == ["make v1a by a from bytes fast", "keep v1a", "deliver v1a to [1, 2]"])
    }

    @Test("a step that the decoder can do is folded into decoding, unless the whole object is there")
    func folding() {
        var bench = ObjectBench()
        bench.ask(1, "aB", looks: false)
        bench.fetched(1)
        #expect(bench.takeLog() == ["fetch k fast", "make v1aB by aB from bytes fast"])
        bench.made("v1aB")
        _ = bench.takeLog()
        bench.ask(2, "aB")
        bench.miss("aB")
        bench.found("a", .object("v1a", 1))
        #expect(bench.takeLog().last == "make v1aB by B from parent fast")
    }

    @Test("an urgent request makes the work that it waits for urgent, down to the bytes")
    func promotion() {
        var bench = ObjectBench()
        bench.ask(1, "ab", .slow, looks: false)
        bench.ask(2, "ab", .fast, looks: false)
        #expect(bench.takeLog() == ["fetch k slow", "move fetch k fast 50"])
        bench.fetched(1)
        _ = bench.takeLog()
        bench.change(2, to: ObjectWant(.slow, .high))
        #expect(bench.takeLog() == ["move make v1a slow 75"])
        bench.cancel(2)
        #expect(bench.takeLog() == ["cancelled to [2]", "move make v1a slow 50"])
    }

    @Test("work ends with the last request that waits for it")
    func cancelling() {
        var bench = ObjectBench()
        bench.ask(1, "a")
        bench.ask(2, "a")
        bench.cancel(1)
        #expect(bench.takeLog() == ["look k a fast", "cancelled to [1]"])
        bench.cancel(2)
        #expect(bench.takeLog() == ["cancelled to [2]", "drop look-up"])
        #expect(bench.isEmpty)
        bench.ask(3, "ab", looks: false)
        bench.ask(4, "a", looks: false)
        bench.fetched(1)
        bench.cancel(4)
        #expect(bench.takeLog().last == "cancelled to [4]")
        bench.cancel(3)
        #expect(bench.takeLog() == ["cancelled to [3]", "drop make v1a"])
        #expect(bench.isEmpty)
    }

    @Test("work goes on while a request that may come to wait for it is in a search")
    func idling() {
        var bench = ObjectBench()
        bench.ask(1, "a", .slow, looks: false)
        bench.ask(2, "a")
        bench.cancel(1)
        #expect(
            bench.takeLog() == ["fetch k slow", "look k a fast", "cancelled to [1]", "move fetch k fast 50"])
        bench.miss("a")
        #expect(bench.takeLog() == [])
        bench.fetched(1)
        _ = bench.takeLog()
        bench.ask(3, "a")
        bench.cancel(2)
        #expect(bench.takeLog() == ["look k a fast beside [1]", "cancelled to [2]"])
        bench.found("a", .underWay(1))
        bench.made("v1a")
        #expect(bench.takeLog() == ["keep v1a", "deliver v1a to [3]"])
        #expect(bench.isEmpty)
    }

    @Test("work that goes on for a search ends with the search if its requests do not come to the work")
    func idleEnd() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.ask(2, "a", .slow)
        bench.cancel(1)
        #expect(bench.takeLog().suffix(2) == ["cancelled to [1]", "move fetch k slow 50"])
        bench.cancel(2)
        #expect(bench.takeLog() == ["cancelled to [2]", "drop look-up", "drop fetch k"])
        #expect(bench.isEmpty)
        bench.ask(3, "a", looks: false)
        bench.ask(4, "ab")
        bench.cancel(3)
        _ = bench.takeLog()
        bench.found("ab", .object("v1ab", 1))
        #expect(bench.takeLog() == ["deliver v1ab to [4]", "drop fetch k"])
        #expect(bench.isEmpty)
        bench.ask(5, "a", looks: false)
        bench.ask(6, "ab")
        bench.cancel(5)
        bench.fetched(2)
        bench.cancel(6)
        #expect(bench.takeLog().last == "drop look-up")
        #expect(bench.isEmpty)
    }

    @Test("the answer to dropped work is ignored")
    func lateAnswers() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.cancel(1)
        _ = bench.takeLog()
        bench.fetched(1)
        #expect(bench.takeLog() == [])
        #expect(bench.isEmpty)
    }

    @Test("a failed fetch fails all requests that wait for it")
    func fetchFailure() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.ask(2, "b", looks: false)
        bench.fetchFailed("k", .status(404))
        #expect(bench.takeLog() == ["fetch k fast", "status 404 to [1, 2]"])
        #expect(bench.isEmpty)
    }

    @Test("news of a fetch reach its requests, and those that join while it waits to try again")
    func news() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.told(.failure(.timedOut))
        bench.ask(2, "b", looks: false)
        bench.told(.retry)
        bench.ask(3, "c", looks: false)
        #expect(
            bench.takeLog() == [
                "fetch k fast", "tell timed out to [1]", "tell timed out to [2]", "tell retry to [1, 2]",
            ])
    }

    @Test("stored bytes that cannot be decoded are fetched again once")
    func refetch() {
        var bench = ObjectBench()
        bench.ask(1, "ab", looks: false)
        bench.fetched(1, isStored: true)
        _ = bench.takeLog()
        bench.failed("v1a")
        #expect(bench.takeLog() == ["fetch k fast"])
        bench.fetched(2, isStored: true)
        _ = bench.takeLog()
        bench.failed("v2a")
        #expect(bench.takeLog() == ["undecodable to [1]"])
        #expect(bench.isEmpty)
    }

    @Test("broken bytes that two objects are made from are fetched again together")
    func sharedRefetch() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.ask(2, "b", looks: false)
        bench.fetched(1, isStored: true)
        _ = bench.takeLog()
        bench.failed("v1a")
        bench.failed("v1b")
        #expect(bench.takeLog() == ["fetch k fast"])
    }

    @Test("broken bytes of the network, and those of requests for the cache alone, are not fetched again")
    func noRefetch() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.fetched(1, isStored: false)
        bench.failed("v1a")
        #expect(bench.takeLog().last == "undecodable to [1]")
        bench.ask(2, "a", mayRefetch: false, looks: false)
        bench.fetched(2, isStored: true)
        bench.failed("v2a")
        #expect(bench.takeLog().last == "undecodable to [2]")
    }

    @Test("a failure that is not the fault of the bytes fetches nothing again")
    func otherFailure() {
        var bench = ObjectBench()
        bench.ask(1, "ab", looks: false)
        bench.fetched(1, isStored: true)
        bench.failed("v1a", isBroken: false)
        #expect(bench.takeLog().last == "undecodable to [1]")
        #expect(bench.isEmpty)
    }

    @Test("a stored form is read back, and is not written again")
    func storedForm() {
        var bench = ObjectBench()
        bench.ask(1, "a1")
        bench.found("a1", .stored("v1a1", 1))
        #expect(bench.takeLog().last == "make v1a1 by a1 from stored fast")
        bench.made("v1a1")
        #expect(bench.takeLog() == ["keep v1a1", "deliver v1a1 to [1]"])
        #expect(bench.isEmpty)
    }

    @Test("a stored form is not read back if the object that needs it is being made already")
    func uselessStoredForm() {
        var bench = ObjectBench()
        bench.ask(1, "abc", looks: false)
        bench.fetched(1)
        bench.made("v1a")
        bench.made("v1ab")
        bench.event { $0.remove([TextKind.Step](letters: "ab"), of: "k", from: .all, into: &$1) }
        bench.ask(2, "abc")
        bench.found("abc", .nothing)
        _ = bench.takeLog()
        bench.found("ab", .stored("v1ab", 1))
        #expect(bench.takeLog().isEmpty)
        bench.made("v1abc")
        #expect(bench.takeLog() == ["keep v1abc", "deliver v1abc to [1, 2]"])
        #expect(bench.isEmpty)
    }

    @Test("a stored form that cannot be read is discarded, and the object is made from the bytes")
    func brokenStoredForm() {
        var bench = ObjectBench()
        bench.ask(1, "ab")
        bench.found("ab", .stored("v1ab", 1))
        _ = bench.takeLog()
        bench.failed("v1ab")
        #expect(bench.takeLog() == ["discard k ab", "fetch k fast"])
    }

    @Test("a removal keeps work under way from being kept and from answering later requests")
    func removal() {
        var bench = ObjectBench()
        bench.ask(1, "a", looks: false)
        bench.remove()
        bench.ask(2, "a", looks: false)
        #expect(bench.takeLog() == ["fetch k fast", "fetch k fast"])
        // The bench knows the later fetch by the name.
        bench.fetched(2)
        bench.made("v2a")
        #expect(
            bench.takeLog() == ["make v2a by a from bytes fast", "keep v2a", "deliver v2a to [2]"])
        bench.ask(3, "a", looks: false)
        bench.fetched(3)
        bench.remove(from: .memory)
        bench.made("v3a")
        #expect(bench.takeLog().suffix(2) == ["make v3a by a from bytes fast", "deliver v3a to [3]"])
    }

    @Test("the removal of one object leaves the others alone")
    func exactRemoval() {
        var bench = ObjectBench()
        bench.ask(1, "ab", looks: false)
        bench.fetched(1)
        bench.event { $0.remove([TextKind.Step](letters: "a"), of: "k", from: .all, into: &$1) }
        bench.made("v1a")
        bench.made("v1ab")
        #expect(
            bench.takeLog().suffix(3) == [
                "make v1ab by b from parent fast", "keep v1ab", "deliver v1ab to [1]",
            ])
    }

    @Test("an added object answers requests that are looking for it, and takes the place of what is being made")
    func addition() {
        var bench = ObjectBench()
        bench.ask(1, "ab")
        bench.ask(2, "c", looks: false)
        bench.fetched(1)
        _ = bench.takeLog()
        bench.event { graph, actions in
            graph.add("new", 9, at: [TextKind.Step](letters: "a"), for: TextKind.Origin(key: "k"), into: &actions)
        }
        #expect(bench.takeLog() == ["write new", "drop look-up", "make newb by b from parent fast"])
        bench.written("new")
        bench.made("v1c")
        #expect(bench.takeLog() == ["deliver v1c to [2]"])
        bench.made("newb")
        #expect(bench.takeLog() == ["keep newb", "deliver newb to [1]"])
        #expect(bench.isEmpty)
    }
}
