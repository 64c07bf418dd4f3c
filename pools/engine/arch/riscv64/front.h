/* SPDX-License-Identifier: MIT */
/*
 * Fronts have no sequences on 64-bit RISC-V.
 */

#include "pools/engine/arch/generic/front.h"
