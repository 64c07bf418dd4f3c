/* SPDX-License-Identifier: MIT */
/*
 * Without sequences there is nothing to do.
 */

#include "pools/engine/arch/generic/vfork.h"
