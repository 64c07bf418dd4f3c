/* SPDX-License-Identifier: MIT */
/*
 * The kernel does not say whether an access was a write.
 */

#include "pools/engine/arch/generic/fatal.h"
