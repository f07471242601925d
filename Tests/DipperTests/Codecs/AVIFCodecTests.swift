#if AVIF
    import Foundation
    import TestSupport
    import Testing

    @testable import Dipper

    @Suite("Which library decodes an AVIF, and on how many threads", .timeLimit(.minutes(2)))
    struct AVIFCodecTests {
        private func isPlain(_ data: Data) throws -> Bool {
            try data.withBytes { bytes throws(DipperError) in
                try AV1Streams.needs(of: ByteReader(bytes), DecodeLimits()).isPlain
            }
        }

        @Test("dav1d decodes what its version is safe with, libaom the rest")
        func choice() {
            for (isPlain, dav1d, hasAOM, expected) in [
                (true, 1000, true, AV1Codec.choice(isPlain: true, dav1d: 1004, hasAOM: false)),
                (false, 1000, true, AV1Codec.choice(isPlain: true, dav1d: nil, hasAOM: true)),
                (false, 1003, true, AV1Codec.choice(isPlain: true, dav1d: nil, hasAOM: true)),
                (false, 1004, true, AV1Codec.choice(isPlain: true, dav1d: 1004, hasAOM: true)),
                (false, 1000, false, AV1Codec.choice(isPlain: false, dav1d: nil, hasAOM: false)),
            ] {
                #expect(AV1Codec.choice(isPlain: isPlain, dav1d: dav1d, hasAOM: hasAOM) == expected, "\(dav1d)")
            }
            let three = [
                AV1Codec.choice(isPlain: true, dav1d: 1000, hasAOM: true),
                AV1Codec.choice(isPlain: false, dav1d: 1000, hasAOM: true),
                AV1Codec.choice(isPlain: false, dav1d: nil, hasAOM: false),
            ]
            #expect(three[0] != three[1] && three[1] != three[2] && three[0] != three[2])
        }

        @Test(
            "The version of dav1d is read from libavif's list",
            arguments: [
                ("dav1d [dec]:1.0.0, libgav1 [dec]:0.18.0, aom [enc/dec]:v3.6.0", 1000),
                ("aom [enc/dec]:v3.8.2, dav1d [dec]:1.4.1", 1004), ("dav1d [dec]:1.5.3-0-gb546257\0\0", 1005),
                ("dav1d [dec]:v2.13.1", 2013), ("aom [enc/dec]:v3.6.0", nil), ("dav1d [dec]:", nil), ("", nil),
            ] as [(String, Int?)])
        func version(_ text: String, _ expected: Int?) {
            #expect(AV1Codec.version(of: "dav1d", in: text) == expected)
        }

        @Test(
            "Grain is found in the header of each kind of picture; the files of the tests have none",
            arguments: [
                "half-chroma", "full-chroma", "grey", "alpha", "ten-bits", "twelve-bits-alpha", "p3", "bt2020", "grid",
                "tall", "tiny", "profile",
            ])
        func grain(_ name: String) throws {
            var data = try Pictures.data("avif/\(name).avif")
            #expect(try isPlain(data))
            let header = try #require(data.firstRange(of: Data([0x12, 0, 0x0A]))?.upperBound)
            // The bit before the last one that is set.
            let end = header + Int(data[header])
            let last = try #require((header + 1...end).last { data[$0] != 0 })
            let bit = data[last].trailingZeroBitCount
            data[bit < 7 ? last : last - 1] ^= bit < 7 ? 2 << bit : 1
            #expect(try !isPlain(data))
        }

        @Test("Enlarging, restoration and several frames are found")
        func tools() throws {
            let frame = AVIFFile.frame64
            #expect(try isPlain(AVIFFile([frame]).data))
            #expect(try isPlain(AVIFFile([frame, frame]).data))
            for (place, bit) in [(8, UInt8(0x40)), (8, 0x10), (9, 0x10)] {
                var other = frame
                other[place] ^= bit
                #expect(try !isPlain(AVIFFile([frame, other]).data), "\(place), \(bit)")
            }
            #expect(try !isPlain(AVIFFile([frame + frame]).data))
            #expect(try !isPlain(AVIFFile.sequence([frame])))
            #expect(try !isPlain(Pictures.data("avif/broken-restoration.avif")))
            #expect(try !isPlain(Pictures.data("avif/moving.avif")))
        }

        @Test("Threads are for large pictures, and shared by those that are decoded at once")
        func threads() {
            for (pixels, most, others, expected) in [
                (100, 8, 0, 1), (1 << 18, 8, 0, 1), (1 << 19, 8, 0, 2), (1 << 24, 8, 0, 4), (1 << 24, 2, 0, 2),
                (1 << 24, 2, 1, 1), (1 << 24, 8, 3, 2), (1 << 24, 1, 0, 1), (1 << 24, 0, 0, 1), (1 << 24, 8, 100, 1),
            ] {
                #expect(AV1Codec.threads(for: pixels, of: most, others: others) == expected)
            }
        }

        @Test("Several threads decode the same picture, also several at once")
        func sameOnThreads() async throws {
            let data = try Pictures.data("avif/large.avif")
            #expect(try isPlain(data))
            var options = DecodeOptions()
            options.threads = 1
            let one = try AVIFDecoder().decode(data, options).pixels
            #expect(one.count == 1024 * 1024 * 4)
            options.threads = 4
            let four = options
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<3 { group.addTask { try AVIFDecoder().decode(data, four).pixels == one } }
                for try await isSame in group { #expect(isSame) }
            }
        }
    }
#endif
