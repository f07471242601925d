#pragma once
#include <sqlite3.h>

// Makes SQLite copy a bound value. Swift does not see the macro, which is a cast.
static inline sqlite3_destructor_type dipper_sqlite_copying(void) { return SQLITE_TRANSIENT; }
