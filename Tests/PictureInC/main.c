/* Shows the picture of a URL in a window until it is loaded. The exit status is 0 if it could be loaded. */
#include <dipper-gtk.h>
#include <stdio.h>

static void loaded(GObject *picture, GParamSpec *spec, gpointer loop) {
    gboolean is_loading;
    g_object_get(picture, "loading", &is_loading, NULL);
    if (!is_loading) g_main_loop_quit(loop);
}

int main(int count, char **arguments) {
    if (count < 2 || !gtk_init_check()) return 2;
    GtkWidget *window = gtk_window_new();
    GtkWidget *picture = dipper_picture_new(arguments[1]);
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    char *error;
    g_object_set(picture, "content-fit", GTK_CONTENT_FIT_COVER, "corner-radius", 8.0, "alternative-text", "A test", NULL);
    g_signal_connect(picture, "notify::loading", G_CALLBACK(loaded), loop);
    gtk_window_set_default_size(GTK_WINDOW(window), 320, 240);
    gtk_window_set_child(GTK_WINDOW(window), picture);
    gtk_window_present(GTK_WINDOW(window));
    g_main_loop_run(loop);
    g_object_get(picture, "error", &error, NULL);
    puts(error ? error : "loaded");
    int status = error != NULL;
    g_free(error);
    gtk_window_destroy(GTK_WINDOW(window));
    g_main_loop_unref(loop);
    return status;
}
