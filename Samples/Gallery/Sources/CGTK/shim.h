#pragma once
#include <gtk/gtk.h>

// A widget that is drawn and laid out in Swift: GTK owns the instance, and the instance holds the Swift object.
typedef struct {
  GtkWidget parent;
  void *object;
} SwiftWidget;
