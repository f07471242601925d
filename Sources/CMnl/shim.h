#pragma once
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
/* Not part of the C library's module. */
#include <malloc.h>
#include <sys/eventfd.h>
