#if WebP
    /// The positions of a WebP file's frames, found without decoding (RFC 9649, 2.3 and 2.7).
    struct WebPChunks {
        /// The length of the file that its header states, in bytes.
        private(set) var announced = 0
        /// The number of frames that are completely there.
        private(set) var completeFrames = 0
        /// The number of bytes up to the end of the last complete frame.
        private(set) var endOfFrames = 0

        init(_ pinned: PinnedBytes) {
            let bytes = UnsafeRawBufferPointer(start: pinned.base, count: pinned.count)
            guard bytes.count >= 12 else { return }
            func number(_ offset: Int) -> Int {
                Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
            }
            announced = number(4) + 8
            var offset = 12
            while offset + 8 <= bytes.count {
                let length = number(offset + 4)
                let end = offset + 8 + length + length % 2
                guard end <= bytes.count else { return }
                if number(offset) == Self.frame {
                    completeFrames += 1
                    endOfFrames = end
                }
                offset = end
            }
        }

        /// The chunk name `ANMF`.
        private static let frame = 0x464D_4E41
    }
#endif
