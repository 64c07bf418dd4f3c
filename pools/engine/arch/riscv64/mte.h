/* SPDX-License-Identifier: MIT */
/*
 * The processor has no tags of memory.
 */

#include "pools/engine/arch/generic/mte.h"
