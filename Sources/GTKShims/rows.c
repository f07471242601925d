#ifdef DIPPER_GTK
#include "dipper-gtk-swift.h"

/* A list model of a number of rows. The items exist only while a view has them. */
#define DIPPER_TYPE_ROWS (dipper_rows_get_type())
G_DECLARE_FINAL_TYPE(DipperRows, dipper_rows, DIPPER, ROWS, GObject)

struct _DipperRows {
    GObject parent;
    guint count;
};

static GType item_type(GListModel *list) { return G_TYPE_OBJECT; }
static guint count_of(GListModel *list) { return DIPPER_ROWS(list)->count; }

static gpointer item(GListModel *list, guint position) {
    return position < DIPPER_ROWS(list)->count ? g_object_new(G_TYPE_OBJECT, NULL) : NULL;
}

static void dipper_rows_interface(GListModelInterface *interface) {
    interface->get_item_type = item_type;
    interface->get_n_items = count_of;
    interface->get_item = item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE(
    DipperRows, dipper_rows, G_TYPE_OBJECT, G_IMPLEMENT_INTERFACE(G_TYPE_LIST_MODEL, dipper_rows_interface))

static void dipper_rows_class_init(DipperRowsClass *class) {}
static void dipper_rows_init(DipperRows *self) {}

GListModel *dipper_rows_new(guint count) {
    DipperRows *rows = g_object_new(DIPPER_TYPE_ROWS, NULL);
    rows->count = count;
    return G_LIST_MODEL(rows);
}

void dipper_rows_set_count(GListModel *list, guint count) {
    DipperRows *rows = DIPPER_ROWS(list);
    guint old = rows->count;
    rows->count = count;
    g_list_model_items_changed(list, 0, old, count);
}
#endif
