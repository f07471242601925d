/* The widget and the paintable of DipperGTK, for programs in C and for bindings of other languages. Use them on the thread
   that runs GTK's loop. */
#pragma once
#if defined(__clang__)
#if __has_feature(modules)
#define DIPPER_MODULES
#endif
#endif
#ifdef DIPPER_MODULES
/* For Swift: if two modules declared GTK's names, it would find some of them in neither. */
#pragma clang module import CGTK4
#else
#include <gtk/gtk.h>
#endif

G_BEGIN_DECLS

/* A widget that shows the picture of a URL. Properties, all of which a .ui file can set:
     url (string), alternative-text (string), content-fit (GtkContentFit), corner-radius (double, in pixels of the
     application), fade-duration (uint, milliseconds), shows-progress (boolean), plays-animations (boolean),
     placeholder-color (GdkRGBA), placeholder-icon and failure-icon (string, names of icons);
   read only: loading (boolean), error (string; NULL if the picture is there, or on its way).
   The name of its CSS node is "picture". */
#define DIPPER_TYPE_PICTURE (dipper_picture_get_type())
G_DECLARE_FINAL_TYPE(DipperPicture, dipper_picture, DIPPER, PICTURE, GtkWidget)

/* Returns a new widget with a floating reference. The URL, which may be NULL, is one of http, https, data or file. */
GtkWidget *dipper_picture_new(const char *url);

/* The picture of a URL for GtkPicture, GtkImage and all else that draws a GdkPaintable. */
#define DIPPER_TYPE_PAINTABLE (dipper_paintable_get_type())
G_DECLARE_FINAL_TYPE(DipperPaintable, dipper_paintable, DIPPER, PAINTABLE, GObject)

/* Returns a new paintable, which the caller owns. */
GdkPaintable *dipper_paintable_new(const char *url);

G_END_DECLS
