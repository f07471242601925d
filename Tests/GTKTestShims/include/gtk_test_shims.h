#pragma once
#include <gtk/gtk.h>
#include <stdbool.h>

/* Functions of GTK's tests with variable arguments. They need GTK_A11Y=test. */
bool accessible_label_is(GtkWidget *widget, const char *text);
bool accessible_is_busy(GtkWidget *widget, bool is_busy);
/* Sets the number of pixels of the screen for each pixel of the application. */
void set_scale(int scale);
/* The number by which the X server knows a window. */
unsigned long x_window_of(GtkWidget *window);
/* Sets a boolean setting of the display. */
void set_setting(const char *name, bool value);
/* Returns a string property, which the caller frees, or a boolean one. */
char *text_of(void *object, const char *name);
bool is_set(void *object, const char *name);
void set_text(void *object, const char *name, const char *value);
