import Dipper
import Foundation

ImageCache.runDecoderIfAsked()
FileHandle.standardError.write(
    Data(
        "dipper-decoder decodes pictures for programs that use Dipper, which start it. It has no use by itself.\n".utf8)
)
exit(64)
