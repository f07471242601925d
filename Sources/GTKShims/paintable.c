#ifdef DIPPER_GTK
#include "dipper-gtk-swift.h"

struct _DipperPaintable {
    GObject parent;
    void *core;
};

static void snapshot(GdkPaintable *paintable, GdkSnapshot *snapshot, double width, double height) {
    dipper_paintable_core_draw(DIPPER_PAINTABLE(paintable)->core, snapshot, width, height);
}

static GdkPaintable *current_image(GdkPaintable *paintable) {
    return dipper_paintable_core_image(DIPPER_PAINTABLE(paintable)->core);
}

static int width_of(GdkPaintable *paintable) {
    int width, height;
    dipper_paintable_core_size(DIPPER_PAINTABLE(paintable)->core, &width, &height);
    return width;
}

static int height_of(GdkPaintable *paintable) {
    int width, height;
    dipper_paintable_core_size(DIPPER_PAINTABLE(paintable)->core, &width, &height);
    return height;
}

static void dipper_paintable_interface(GdkPaintableInterface *interface) {
    interface->snapshot = snapshot;
    interface->get_current_image = current_image;
    interface->get_intrinsic_width = width_of;
    interface->get_intrinsic_height = height_of;
}

G_DEFINE_FINAL_TYPE_WITH_CODE(
    DipperPaintable, dipper_paintable, G_TYPE_OBJECT,
    G_IMPLEMENT_INTERFACE(GDK_TYPE_PAINTABLE, dipper_paintable_interface))

static void dipper_paintable_init(DipperPaintable *self) {
    self->core = dipper_paintable_core_new(GDK_PAINTABLE(self));
}

static void dispose(GObject *object) {
    dipper_paintable_core_end(DIPPER_PAINTABLE(object)->core);
    G_OBJECT_CLASS(dipper_paintable_parent_class)->dispose(object);
}

static void finalize(GObject *object) {
    dipper_paintable_core_free(DIPPER_PAINTABLE(object)->core);
    G_OBJECT_CLASS(dipper_paintable_parent_class)->finalize(object);
}

static void dipper_paintable_class_init(DipperPaintableClass *class) {
    G_OBJECT_CLASS(class)->dispose = dispose;
    G_OBJECT_CLASS(class)->finalize = finalize;
}

GdkPaintable *dipper_paintable_object(void) { return g_object_new(DIPPER_TYPE_PAINTABLE, NULL); }

GdkPaintable *dipper_paintable_new(const char *url) {
    GdkPaintable *paintable = dipper_paintable_object();
    dipper_paintable_core_set_url(DIPPER_PAINTABLE(paintable)->core, url);
    return paintable;
}

void *dipper_paintable_core(GdkPaintable *paintable) { return DIPPER_PAINTABLE(paintable)->core; }
#endif
