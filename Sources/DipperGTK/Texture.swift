#if GTK
    import CGTK4
    import CPixels
    import Dipper

    /// A picture as GTK draws it. The texture shares the pixels of the image and keeps them until GTK releases them.
    final class Texture {
        let image: Image
        let pointer: OpaquePointer
        /// The pixels as cairo has them.
        private var surface: OpaquePointer?

        init(_ image: Image) {
            self.image = image
            let pixels = image.storage.bytes
            let bytes = g_bytes_new_with_free_func(
                pixels.baseAddress, gsize(image.rowStride * image.height),
                { storage in if let storage { Unmanaged<PixelStorage>.fromOpaque(storage).release() } },
                Unmanaged.passRetained(image.storage).toOpaque())
            pointer = gdk_memory_texture_new(
                Int32(image.width), Int32(image.height), GDK_MEMORY_R8G8B8A8_PREMULTIPLIED, bytes,
                gsize(image.rowStride))
            g_bytes_unref(bytes)
        }

        deinit {
            g_object_unref(UnsafeMutableRawPointer(pointer))
            cairo_surface_destroy(surface)
        }

        /// Draws the picture, scaled to a frame, into a window; into any of the program without a widget.
        func draw(_ snapshot: OpaquePointer, _ frame: Frame, in widget: UnsafeMutablePointer<GtkWidget>?) {
            var bounds = frame.rect
            guard frame.width > 0, frame.height > 0 else { return }
            guard Self.isDrawnByCairo(widget), let surface = surface ?? converted() else {
                return gtk_snapshot_append_texture(snapshot, pointer, &bounds)
            }
            // GTK's renderer for cairo would convert a texture in each frame, and send it to the X server again.
            self.surface = surface
            let context = gtk_snapshot_append_cairo(snapshot, &bounds)
            cairo_translate(context, frame.x, frame.y)
            cairo_scale(context, frame.width / Double(image.width), frame.height / Double(image.height))
            cairo_set_source_surface(context, surface, 0, 0)
            cairo_pattern_set_extend(cairo_get_source(context), CAIRO_EXTEND_PAD)
            cairo_paint(context)
            cairo_destroy(context)
        }

        private static func isDrawnByCairo(_ widget: UnsafeMutablePointer<GtkWidget>?) -> Bool {
            guard let native = widget.flatMap(gtk_widget_get_native) ?? anyWindow,
                let renderer = gtk_native_get_renderer(native)
            else { return false }
            let instance = UnsafeMutableRawPointer(renderer).assumingMemoryBound(to: GTypeInstance.self)
            return g_type_check_instance_is_a(instance, gsk_cairo_renderer_get_type()) != 0
        }

        private static var anyWindow: OpaquePointer? {
            guard let window = g_list_model_get_item(gtk_window_get_toplevels(), 0) else { return nil }
            // The list keeps it.
            g_object_unref(window)
            return OpaquePointer(window)
        }

        /// Returns `nil` for a picture that is too large for cairo.
        private func converted() -> OpaquePointer? {
            let surface = cairo_image_surface_create(
                image.isOpaque ? CAIRO_FORMAT_RGB24 : CAIRO_FORMAT_ARGB32, Int32(image.width), Int32(image.height))
            guard let memory = cairo_image_surface_get_data(surface) else {
                cairo_surface_destroy(surface)
                return nil
            }
            let stride = Int(cairo_image_surface_get_stride(surface))
            image.withPixels { pixels in
                for row in 0..<image.height {
                    pixels_swap_red_blue(
                        memory + row * stride, pixels.baseAddress.unsafelyUnwrapped + row * image.rowStride, image.width
                    )
                }
            }
            cairo_surface_mark_dirty(surface)
            return surface
        }
    }

    /// Content as it is drawn: a texture, a colour, an icon, or nothing.
    enum Layer {
        case nothing
        case color(GdkRGBA)
        case picture(Texture)
        case icon(String)

        init(_ content: DisplayContent) {
            if let image = content.image {
                self = .picture(Texture(image))
            } else if let color = content.color {
                self = .color(GdkRGBA(color))
            } else if case .placeholder(.object(let object)) = content, let name = object as? String {
                self = .icon(name)
            } else if case .failure(.object(let object)) = content, let name = object as? String {
                self = .icon(name)
            } else {
                self = .nothing
            }
        }

        var texture: Texture? { if case .picture(let texture) = self { texture } else { nil } }
    }

    /// A rectangle in pixels of the application.
    struct Frame: Equatable {
        var x = 0.0
        var y = 0.0
        var width: Double
        var height: Double

        var rect: graphene_rect_t {
            graphene_rect_t(
                origin: graphene_point_t(x: Float(x), y: Float(y)),
                size: graphene_size_t(width: Float(width), height: Float(height)))
        }

        /// Returns the place of a picture in this room, on whole pixels of a device with `scale` pixels for each pixel of
        /// the application, so that a picture of the right size stays sharp.
        func place(width: Double, height: Double, _ fit: GtkContentFit, scale: Double) -> Frame {
            guard width > 0, height > 0 else { return self }
            let (x, y) = (self.width / width, self.height / height)
            let factors: (Double, Double) =
                switch fit {
                case GTK_CONTENT_FIT_FILL: (x, y)
                case GTK_CONTENT_FIT_COVER: (max(x, y), max(x, y))
                case GTK_CONTENT_FIT_SCALE_DOWN: (min(x, y, 1), min(x, y, 1))
                default: (min(x, y), min(x, y))
                }
            func whole(_ length: Double) -> Double { (length * scale).rounded() / scale }
            let (wide, high) = (whole(width * factors.0), whole(height * factors.1))
            return Frame(
                x: whole((self.width - wide) / 2), y: whole((self.height - high) / 2), width: wide, height: high)
        }
    }

    extension Color {
        init(_ color: GdkRGBA) {
            self.init(
                red: Double(color.red), green: Double(color.green), blue: Double(color.blue),
                alpha: Double(color.alpha))
        }
    }

    extension GdkRGBA {
        init(_ color: Color) {
            self.init(
                red: Float(color.red), green: Float(color.green), blue: Float(color.blue), alpha: Float(color.alpha))
        }

        func fainter(_ factor: Float) -> GdkRGBA {
            GdkRGBA(red: red, green: green, blue: blue, alpha: alpha * factor)
        }
    }
#endif
