import CLCMS
import Foundation

/// Brings colours of a profile into sRGB.
// lcms transforms may be used by several threads at a time if they have no cache.
final class ColorTransform: @unchecked Sendable {
}
