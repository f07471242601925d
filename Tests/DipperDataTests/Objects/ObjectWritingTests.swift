import TestSupport
import Testing

@testable import DipperData

@Suite("ObjectGraph: writing objects to disk", .timeLimit(.minutes(1)))
struct ObjectWritingTests {
    /// Returns a bench with an object that is being written, and its log empty.
    private func writing(_ storing: ObjectStoring) -> ObjectBench {
        var bench = ObjectBench()
        bench.ask(1, "a1", storing: storing, looks: false)
        bench.fetched(1)
        bench.made("v1a")
        bench.made("v1a1")
        return bench
    }

    @Test("an object with a stored form is written after its requests have it; its parent is neither kept nor written")
    func background() {
        var bench = writing(.background)
        #expect(
            bench.takeLog() == [
                "fetch k fast", "make v1a by a from bytes fast", "make v1a1 by 1 from parent fast", "keep v1a1",
                "deliver v1a1 to [1]", "write v1a1",
            ])
        #expect(bench.mayWrite("v1a1") == true)
        bench.written("v1a1")
        #expect(bench.takeLog().isEmpty)
        #expect(bench.isEmpty)
    }

    @Test("an object is not written for requests that store nothing")
    func never() {
        var bench = writing(.never)
        #expect(bench.takeLog().suffix(2) == ["keep v1a1", "deliver v1a1 to [1]"])
        #expect(bench.isEmpty)
    }

    @Test("a request that waits for the disk is answered when the write has ended, however it ended")
    func awaited() {
        for result in [ObjectWriteEnd.stored, .unneeded, .failed] {
            var bench = writing(.awaited)
            #expect(bench.takeLog().suffix(2) == ["keep v1a1", "write v1a1 fast"])
            bench.written("v1a1", result)
            #expect(bench.takeLog() == ["deliver v1a1 to [1]"])
            #expect(bench.isEmpty)
        }
    }

    @Test("a request that needs the object on disk fails if it is not there")
    func required() {
        var bench = writing(.required)
        bench.written("v1a1", .failed)
        #expect(bench.takeLog().last == "not written to [1]")
        bench = writing(.required)
        bench.written("v1a1", .unneeded)
        #expect(bench.takeLog().last == "deliver v1a1 to [1]")
        bench = writing(.required)
        #expect(bench.mayWrite("v1a1") == true)
        bench.remove()
        bench.written("v1a1")
        #expect(bench.takeLog().suffix(2) == ["discard k a1", "not written to [1]"])
        #expect(bench.isEmpty)
    }

    @Test("a write has the urgency of the requests that wait for it, and goes on when they are cancelled")
    func urgency() {
        var bench = writing(.awaited)
        _ = bench.takeLog()
        bench.change(1, to: ObjectWant(.slow, .high))
        #expect(bench.takeLog() == ["move write v1a1 slow 75"])
        bench.cancel(1)
        #expect(bench.takeLog() == ["cancelled to [1]"])
        #expect(bench.mayWrite("v1a1") == true)
        bench.written("v1a1")
        #expect(bench.isEmpty)
    }

    @Test("a write that has not begun is dropped by a removal from the disk, not by one from memory")
    func removedBefore() {
        var bench = writing(.awaited)
        _ = bench.takeLog()
        bench.remove(from: .memory)
        #expect(bench.takeLog().isEmpty)
        bench.remove(from: .disk)
        #expect(bench.takeLog() == ["drop write v1a1", "deliver v1a1 to [1]"])
        #expect(bench.isEmpty)
    }

    @Test("the file of an object that is removed while it is written is taken back")
    func removedMeanwhile() {
        var bench = writing(.background)
        #expect(bench.mayWrite("v1a1") == true)
        bench.event { $0.remove([TextKind.Step](letters: "a1"), of: "k", from: .all, into: &$1) }
        #expect(bench.mayWrite("v1a1") == false)
        bench.written("v1a1")
        #expect(bench.takeLog().last == "discard k a1")
        bench = writing(.background)
        #expect(bench.mayWrite("v1a1") == true)
        bench.event { $0.removeAll(from: .all, into: &$1) }
        bench.written("v1a1", .failed)
        #expect(bench.takeLog().last == "write v1a1", "there is no file to take back")
        #expect(bench.isEmpty)
    }

    @Test("a later write of an object waits for the one under way, and takes the place of one that waits")
    func oneAtATime() {
        var bench = writing(.background)
        #expect(bench.mayWrite("v1a1") == true)
        for version in 2...3 {
            bench.ask(version, "a1", storing: .awaited, looks: false)
            bench.fetched(version)
            bench.made("v\(version)a")
            bench.made("v\(version)a1")
        }
        #expect(bench.takeLog().suffix(2) == ["keep v3a1", "deliver v2a1 to [2]"])
        bench.written("v1a1")
        #expect(bench.takeLog() == ["write v3a1 fast"])
        bench.written("v3a1")
        #expect(bench.takeLog() == ["deliver v3a1 to [3]"])
        #expect(bench.isEmpty)
    }

    @Test("an added object is written, can be read meanwhile, and is not read once it has been removed")
    func added() {
        var bench = ObjectBench()
        let path = [TextKind.Step](letters: "a")
        bench.event { graph, actions in
            graph.add("new", 9, at: path, for: TextKind.Origin(key: "k"), into: &actions)
        }
        #expect(bench.takeLog() == ["write new"])
        #expect(bench.graph.beingWritten(path, of: "k")?.object == "new")
        #expect(bench.mayWrite("new") == true)
        bench.remove()
        #expect(bench.graph.beingWritten(path, of: "k") == nil)
        bench.written("new")
        #expect(bench.takeLog() == ["discard k a"])
        #expect(bench.isEmpty)
    }

    @Test("a write is in a hurry when many objects wait to be written")
    func hurry() {
        var bench = ObjectBench()
        for number in 1...9 {
            bench.event { graph, actions in
                graph.add(
                    "o\(number)", number, at: [TextKind.Step](letters: "a"), for: TextKind.Origin(key: "k\(number)"),
                    into: &actions)
            }
        }
        #expect(bench.takeLog().suffix(2) == ["write o8", "write o9 fast"])
    }

    @Test("a caller that waits for the writes is called when none is left")
    func afterWrites() {
        let calls = Box(0)
        var bench = writing(.background)
        bench.event { $0.afterWrites({ calls.update { $0 += 1 } }, into: &$1) }
        #expect(calls.value == 0)
        bench.written("v1a1")
        #expect(calls.value == 1)
        bench.event { $0.afterWrites({ calls.update { $0 += 1 } }, into: &$1) }
        #expect(calls.value == 2)
    }
}
