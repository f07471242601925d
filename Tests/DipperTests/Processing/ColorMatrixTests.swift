import Testing

@testable import Dipper

@Suite("The matrix of colours", .timeLimit(.minutes(5)))
struct ColorMatrixTests {
    @Test("a second scaling applies to the result of the first, its constant included")
    func chained() {
        var matrix = ColorMatrix()
        matrix.scale(by: 2, adding: 1)
        matrix.scale(by: 3, adding: 0.5)
        #expect(
            matrix.columns == [
                SIMD4(6, 0, 0, 0), SIMD4(0, 6, 0, 0), SIMD4(0, 0, 6, 0), SIMD4(3.5, 3.5, 3.5, 1),
            ])
    }
}
