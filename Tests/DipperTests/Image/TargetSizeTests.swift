@testable import Dipper
import Testing

@Suite("The size a picture gets", .timeLimit(.minutes(5))) struct TargetSizeTests {
    private func size(
        _ width: Int, _ height: Int, _ mode: TargetSize.Mode, up: Bool = false
    ) -> (Int, Int) -> PixelSize {
        let target = TargetSize(PixelSize(width: width, height: height), mode, allowsUpscaling: up)
        return { target.size(for: PixelSize(width: $0, height: $1)) }
    }

    @Test("fit keeps proportions inside the target, fill covers it, stretch takes it")
    func modes() {
        #expect(size(400, 300, .fit)(4000, 2000) == PixelSize(width: 400, height: 200))
        #expect(size(400, 300, .fill)(4000, 2000) == PixelSize(width: 600, height: 300))
        #expect(size(400, 300, .stretch)(4000, 2000) == PixelSize(width: 400, height: 300))
    }

    @Test("smaller pictures grow only if that is allowed, and no side vanishes")
    func bounds() {
        #expect(size(400, 300, .fit)(40, 20) == PixelSize(width: 40, height: 20))
        #expect(size(400, 300, .fit, up: true)(40, 20) == PixelSize(width: 400, height: 200))
        #expect(size(400, 300, .stretch)(4000, 20) == PixelSize(width: 400, height: 20))
        #expect(size(400, 300, .fit)(60_000, 2) == PixelSize(width: 400, height: 1))
        for mode in TargetSize.Mode.allCases {
            #expect(!size(.max, .max, mode, up: true)(3, 2).isEmpty)
            #expect(!size(1, .max, mode, up: true)(.max, 1).isEmpty)
            #expect(size(0, -5, mode)(3, 2) == PixelSize(width: 3, height: 2))
        }
    }
}
