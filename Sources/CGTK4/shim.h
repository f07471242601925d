#pragma once
#include <gtk/gtk.h>
// Swift's module of glibc has it not.
#include <malloc.h>
