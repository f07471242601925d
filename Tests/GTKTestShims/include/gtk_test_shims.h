#pragma once
#include <gtk/gtk.h>
#include <stdbool.h>

/* Functions of GTK's tests with variable arguments. They need GTK_A11Y=test. */
bool accessible_label_is(GtkWidget *widget, const char *text);
bool accessible_is_busy(GtkWidget *widget, bool is_busy);
/* Sets a boolean setting of the display. */
void set_setting(const char *name, bool value);
/* Returns a string property, which the caller frees, or a boolean one. */
char *text_of(void *object, const char *name);
bool is_set(void *object, const char *name);
void set_text(void *object, const char *name, const char *value);
