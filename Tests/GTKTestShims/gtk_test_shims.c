#include "gtk_test_shims.h"
#include <gdk/x11/gdkx.h>

bool accessible_label_is(GtkWidget *widget, const char *text) {
    char *found = gtk_test_accessible_check_property(
        GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_PROPERTY_LABEL, text);
    bool is_equal = found == NULL;
    g_free(found);
    return is_equal;
}

bool accessible_is_busy(GtkWidget *widget, bool is_busy) {
    char *found = gtk_test_accessible_check_state(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_STATE_BUSY, (gboolean)is_busy);
    bool is_equal = found == NULL;
    g_free(found);
    return is_equal;
}

void set_scale(int scale) { gdk_x11_display_set_surface_scale(gdk_display_get_default(), scale); }

unsigned long x_window_of(GtkWidget *window) {
    return gdk_x11_surface_get_xid(gtk_native_get_surface(GTK_NATIVE(window)));
}

void set_setting(const char *name, bool value) {
    g_object_set(gtk_settings_get_default(), name, (gboolean)value, NULL);
}

char *text_of(void *object, const char *name) {
    char *text = NULL;
    g_object_get(object, name, &text, NULL);
    return text;
}

bool is_set(void *object, const char *name) {
    gboolean value = FALSE;
    g_object_get(object, name, &value, NULL);
    return value;
}

void set_text(void *object, const char *name, const char *value) { g_object_set(object, name, value, NULL); }
