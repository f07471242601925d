#pragma once
#include <gtk/gtk.h>
// Swift's module of glibc has it not.
#include <malloc.h>

// A widget that is drawn and laid out in Swift: GTK owns the instance, and the instance holds the Swift object.
typedef struct {
  GtkWidget parent;
  void *object;
} SwiftWidget;
