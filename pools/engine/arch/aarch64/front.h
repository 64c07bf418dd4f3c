/* SPDX-License-Identifier: MIT */
/*
 * Fronts have no sequences on 64-bit ARM.
 */

#include "pools/engine/arch/generic/front.h"
