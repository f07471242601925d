import DipperGTK

gtk_init()
let window = UnsafeMutableRawPointer(gtk_window_new()!).assumingMemoryBound(to: GtkWindow.self)
let picture = DipperPicture("https://picsum.photos/id/1015/1600/1200")
picture.alternativeText = "A river between mountains"
gtk_window_set_default_size(window, 640, 480)
gtk_window_set_child(window, picture.widget)
gtk_window_present(window)
while g_list_model_get_n_items(gtk_window_get_toplevels()) > 0 { g_main_context_iteration(nil, 1) }
