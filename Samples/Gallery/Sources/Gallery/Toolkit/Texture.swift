import CGTK
import Dipper

/// A picture as GTK draws it. The texture shares the image's pixels and keeps them alive until GTK releases them.
final class Texture {
    let pointer: OpaquePointer
    let width: Int
    let height: Int

    init(_ image: Image) {
        width = image.width
        height = image.height
        let pixels = image.storage.bytes
        let bytes = g_bytes_new_with_free_func(
            pixels.baseAddress, gsize(image.rowStride * image.height),
            { storage in if let storage { Unmanaged<PixelStorage>.fromOpaque(storage).release() } },
            Unmanaged.passRetained(image.storage).toOpaque())
        pointer = gdk_memory_texture_new(
            Int32(image.width), Int32(image.height), GDK_MEMORY_R8G8B8A8_PREMULTIPLIED, bytes, gsize(image.rowStride))
        g_bytes_unref(bytes)
    }

    deinit {
        g_object_unref(UnsafeMutableRawPointer(pointer))
    }
}

extension GdkRGBA {
    init(_ color: Color) {
        self.init(
            red: Float(color.red), green: Float(color.green), blue: Float(color.blue), alpha: Float(color.alpha))
    }
}
