import Dipper
import DipperGTK

gtk_init()
let window = UnsafeMutableRawPointer(gtk_window_new()!).assumingMemoryBound(to: GtkWindow.self)
let list = PictureList(count: 10_000) { row in
    ImageRequest(string: "https://picsum.photos/seed/\(row)/640/480")
}
let view = list.makeGrid(width: 200, height: 150) { picture in
    picture.cornerRadius = 8
    return picture.widget
} bind: { picture, row in
    picture.alternativeText = "Photograph \(row + 1)"
}
gtk_window_set_default_size(window, 900, 640)
gtk_window_set_child(window, view)
gtk_window_present(window)
while g_list_model_get_n_items(gtk_window_get_toplevels()) > 0 { g_main_context_iteration(nil, 1) }
