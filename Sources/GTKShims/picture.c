#ifdef DIPPER_GTK
#include "dipper-gtk-swift.h"

struct _DipperPicture {
    GtkWidget parent;
    void *core;
};

G_DEFINE_FINAL_TYPE(DipperPicture, dipper_picture, GTK_TYPE_WIDGET)

static GParamSpec *properties[DIPPER_PROPERTY_COUNT];

static void dipper_picture_init(DipperPicture *self) {
    // The corners that CSS gives to the widget cut the picture.
    gtk_widget_set_overflow(GTK_WIDGET(self), GTK_OVERFLOW_HIDDEN);
    self->core = dipper_picture_core_new(GTK_WIDGET(self));
}

static void dispose(GObject *object) {
    dipper_picture_core_end(DIPPER_PICTURE(object)->core);
    G_OBJECT_CLASS(dipper_picture_parent_class)->dispose(object);
}

static void finalize(GObject *object) {
    dipper_picture_core_free(DIPPER_PICTURE(object)->core);
    G_OBJECT_CLASS(dipper_picture_parent_class)->finalize(object);
}

static void set_property(GObject *object, guint property, const GValue *value, GParamSpec *spec) {
    if (property < DIPPER_LOADING) {
        dipper_picture_core_set(DIPPER_PICTURE(object)->core, property, value);
    } else {
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
    }
}

static void get_property(GObject *object, guint property, GValue *value, GParamSpec *spec) {
    if (property < DIPPER_PROPERTY_COUNT) {
        dipper_picture_core_get(DIPPER_PICTURE(object)->core, property, value);
    } else {
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
    }
}

static void map(GtkWidget *widget) {
    GTK_WIDGET_CLASS(dipper_picture_parent_class)->map(widget);
    dipper_picture_core_map(DIPPER_PICTURE(widget)->core, TRUE);
}

static void unmap(GtkWidget *widget) {
    dipper_picture_core_map(DIPPER_PICTURE(widget)->core, FALSE);
    GTK_WIDGET_CLASS(dipper_picture_parent_class)->unmap(widget);
}

static void unroot(GtkWidget *widget) {
    dipper_picture_core_unroot(DIPPER_PICTURE(widget)->core);
    GTK_WIDGET_CLASS(dipper_picture_parent_class)->unroot(widget);
}

static GtkSizeRequestMode request_mode(GtkWidget *widget) { return GTK_SIZE_REQUEST_HEIGHT_FOR_WIDTH; }

static void measure(
    GtkWidget *widget, GtkOrientation axis, int other, int *minimum, int *natural, int *minimum_baseline,
    int *natural_baseline) {
    dipper_picture_core_measure(DIPPER_PICTURE(widget)->core, axis, other, minimum, natural);
}

static void size_allocate(GtkWidget *widget, int width, int height, int baseline) {
    dipper_picture_core_allocate(DIPPER_PICTURE(widget)->core, width, height);
}

static void snapshot(GtkWidget *widget, GtkSnapshot *snapshot) {
    dipper_picture_core_draw(DIPPER_PICTURE(widget)->core, snapshot);
}

static void dipper_picture_class_init(DipperPictureClass *class) {
    GObjectClass *object = G_OBJECT_CLASS(class);
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    object->dispose = dispose;
    object->finalize = finalize;
    object->set_property = set_property;
    object->get_property = get_property;
    widget->map = map;
    widget->unmap = unmap;
    widget->unroot = unroot;
    widget->get_request_mode = request_mode;
    widget->measure = measure;
    widget->size_allocate = size_allocate;
    widget->snapshot = snapshot;
    gtk_widget_class_set_css_name(widget, "picture");
    gtk_widget_class_set_accessible_role(widget, GTK_ACCESSIBLE_ROLE_IMG);

    GParamFlags set = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
    GParamFlags get = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;
    properties[DIPPER_URL] = g_param_spec_string("url", NULL, NULL, NULL, set);
    properties[DIPPER_ALTERNATIVE_TEXT] = g_param_spec_string("alternative-text", NULL, NULL, NULL, set);
    properties[DIPPER_CONTENT_FIT] =
        g_param_spec_enum("content-fit", NULL, NULL, GTK_TYPE_CONTENT_FIT, GTK_CONTENT_FIT_CONTAIN, set);
    properties[DIPPER_CORNER_RADIUS] = g_param_spec_double("corner-radius", NULL, NULL, 0, G_MAXDOUBLE, 0, set);
    properties[DIPPER_FADE_DURATION] = g_param_spec_uint("fade-duration", NULL, NULL, 0, 60000, 200, set);
    properties[DIPPER_SHOWS_PROGRESS] = g_param_spec_boolean("shows-progress", NULL, NULL, TRUE, set);
    properties[DIPPER_PLAYS_ANIMATIONS] = g_param_spec_boolean("plays-animations", NULL, NULL, TRUE, set);
    properties[DIPPER_PLACEHOLDER_COLOR] = g_param_spec_boxed("placeholder-color", NULL, NULL, GDK_TYPE_RGBA, set);
    properties[DIPPER_PLACEHOLDER_ICON] = g_param_spec_string("placeholder-icon", NULL, NULL, NULL, set);
    properties[DIPPER_FAILURE_ICON] =
        g_param_spec_string("failure-icon", NULL, NULL, "image-missing-symbolic", set);
    properties[DIPPER_LOADING] = g_param_spec_boolean("loading", NULL, NULL, FALSE, get);
    properties[DIPPER_ERROR] = g_param_spec_string("error", NULL, NULL, NULL, get);
    g_object_class_install_properties(object, DIPPER_PROPERTY_COUNT, properties);
}

GtkWidget *dipper_picture_new(const char *url) { return g_object_new(DIPPER_TYPE_PICTURE, "url", url, NULL); }

GtkWidget *dipper_picture_object(void) { return g_object_new(DIPPER_TYPE_PICTURE, NULL); }

void *dipper_picture_core(GtkWidget *picture) { return DIPPER_PICTURE(picture)->core; }

void dipper_picture_notify(GtkWidget *picture, guint property) {
    g_object_notify_by_pspec(G_OBJECT(picture), properties[property]);
}

gboolean dipper_is_picture(void *object) { return DIPPER_IS_PICTURE(object); }

void dipper_set_accessible_label(GtkWidget *widget, const char *text) {
    if (text) {
        gtk_accessible_update_property(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_PROPERTY_LABEL, text, -1);
    } else {
        gtk_accessible_reset_property(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_PROPERTY_LABEL);
    }
}

void dipper_set_busy(GtkWidget *widget, gboolean is_busy) {
    gtk_accessible_update_state(GTK_ACCESSIBLE(widget), GTK_ACCESSIBLE_STATE_BUSY, is_busy, -1);
}
#endif
