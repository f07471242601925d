/* Between the classes, which are in C, and their methods, which are in Swift. */
#pragma once
#include "dipper-gtk.h"

G_BEGIN_DECLS

enum {
    DIPPER_URL = 1,
    DIPPER_ALTERNATIVE_TEXT,
    DIPPER_CONTENT_FIT,
    DIPPER_CORNER_RADIUS,
    DIPPER_FADE_DURATION,
    DIPPER_SHOWS_PROGRESS,
    DIPPER_PLAYS_ANIMATIONS,
    DIPPER_PLACEHOLDER_COLOR,
    DIPPER_PLACEHOLDER_ICON,
    DIPPER_FAILURE_ICON,
    DIPPER_LOADING,
    DIPPER_ERROR,
    DIPPER_PROPERTY_COUNT,
};

/* Swift's part of an instance, which the instance owns. */
void *dipper_picture_core(GtkWidget *picture);
void *dipper_paintable_core(GdkPaintable *paintable);
void dipper_picture_notify(GtkWidget *picture, guint property);

/* Implemented in Swift. */
void *dipper_picture_core_new(GtkWidget *picture);
void dipper_picture_core_end(void *core);
void dipper_picture_core_free(void *core);
void dipper_picture_core_set(void *core, guint property, const GValue *value);
void dipper_picture_core_get(void *core, guint property, GValue *value);
void dipper_picture_core_map(void *core, gboolean is_mapped);
void dipper_picture_core_unroot(void *core);
void dipper_picture_core_measure(void *core, GtkOrientation axis, int other, int *minimum, int *natural);
void dipper_picture_core_allocate(void *core, int width, int height);
void dipper_picture_core_draw(void *core, GtkSnapshot *snapshot);

void *dipper_paintable_core_new(GdkPaintable *paintable);
void dipper_paintable_core_end(void *core);
void dipper_paintable_core_free(void *core);
void dipper_paintable_core_set_url(void *core, const char *url);
void dipper_paintable_core_draw(void *core, GdkSnapshot *snapshot, double width, double height);
void dipper_paintable_core_size(void *core, int *width, int *height);
GdkPaintable *dipper_paintable_core_image(void *core);

/* Functions with variable arguments. */
void dipper_set_accessible_label(GtkWidget *widget, const char *text);
void dipper_set_busy(GtkWidget *widget, gboolean is_busy);

/* The handler of a signal without arguments, with an object, and with a number. */
static inline GCallback dipper_handler(void (*function)(gpointer, gpointer)) { return G_CALLBACK(function); }
static inline GCallback dipper_handler_of_object(void (*function)(gpointer, gpointer, gpointer)) {
    return G_CALLBACK(function);
}
static inline GCallback dipper_handler_of_number(void (*function)(gpointer, guint, gpointer)) {
    return G_CALLBACK(function);
}

/* Macros. */
GtkWidget *dipper_picture_object(void);
GdkPaintable *dipper_paintable_object(void);
gboolean dipper_is_picture(void *object);
/* A list of items that have no content: a view tells their places. */
GListModel *dipper_rows_new(guint count);
void dipper_rows_set_count(GListModel *rows, guint count);

G_END_DECLS
