#if DEBUG
    import Foundation

    @testable import Dipper

    /// A packet that comes from a helper, which may have been taken over.
    enum MessageProbe {
        static func run(_ data: Data) {
            guard let packet = DecoderPacket(data) else { return }
            require(DecoderPacket(packet.bytes)?.numbers == packet.numbers, "A packet has the numbers that were sent.")
            _ = DecoderGreeting(packet)
            if let request = DecoderRequest(packet) {
                require(
                    DecoderRequest(request.packet)?.packet == request.packet, "A request is what the program has asked."
                )
            }
            let limits = DecodeLimits()
            guard case .picture(let picture)? = DecoderReply(packet, limits) else { return }
            let (area, overflows) = picture.size.width.multipliedReportingOverflow(by: picture.size.height)
            require(!overflows && area > 0 && area * 4 <= limits.bytes, "A picture has pixels, within the limits.")
            require((1...limits.frames).contains(picture.frameCount), "Frames are within the limits.")
            require(picture.duration >= .zero, "No frame ends before it begins.")
        }
    }
#endif
