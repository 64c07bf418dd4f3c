/* SPDX-License-Identifier: MIT */
/* See unwind_plugin.h. */
#include "unwind_plugin.h"

UNWIND_PLUGIN(1000)
