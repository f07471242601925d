import DipperTesting
import Testing

@testable import Dipper

@Suite("What a player has to tell", .timeLimit(.minutes(5)))
struct AnimatedMailboxTests {
    private func take(_ mailbox: inout AnimationMailbox) -> [String] {
        var all: [String] = []
        while let news = mailbox.take() {
            switch news {
            case .prepared: all.append("prepared")
            case .frame(_, let index): all.append("\(index)")
            case .looped(let count): all.append("loop \(count)")
            case .finished: all.append("finished")
            case .failed(let error): all.append(error.shortDescription)
            }
        }
        return all
    }

    private func begins(_ mailbox: inout AnimationMailbox) -> Bool { mailbox.beginCall() }
    private func ends(_ mailbox: inout AnimationMailbox) -> Bool { mailbox.endCall() }

    @Test("the newest frame and the newest count take the place of older ones, in the order of what happened")
    func newest() {
        var mailbox = AnimationMailbox()
        let image = Image.sample(2, 2)
        _ = mailbox.post(.prepared)
        for pass in 1...3 {
            for index in 0..<4 { _ = mailbox.post(.frame(image, index: index)) }
            _ = mailbox.post(.looped(pass))
        }
        _ = mailbox.post(.finished)
        #expect(mailbox.count == 4)
        #expect(take(&mailbox) == ["prepared", "3", "loop 3", "finished"])
        for news in [AnimationMailbox.News.frame(image, index: 3), .looped(1), .frame(image, index: 0)] {
            _ = mailbox.post(news)
        }
        #expect(take(&mailbox) == ["loop 1", "0"])
    }

    @Test("no more than one call is on its way, and none while it is held")
    func calls() {
        var mailbox = AnimationMailbox()
        #expect(!begins(&mailbox))
        _ = mailbox.post(.prepared)
        #expect(begins(&mailbox))
        _ = mailbox.post(.looped(1))
        #expect(!begins(&mailbox))
        #expect(ends(&mailbox))
        #expect(!begins(&mailbox))
        mailbox.isHeld = true
        #expect(take(&mailbox).isEmpty)
        #expect(!ends(&mailbox))
        mailbox.isHeld = false
        #expect(begins(&mailbox))
        #expect(take(&mailbox) == ["prepared", "loop 1"])
        #expect(!ends(&mailbox))
        _ = mailbox.post(.finished)
        let untold = mailbox.clear()
        #expect(untold.count == 1 && mailbox.count == 0)
    }
}
