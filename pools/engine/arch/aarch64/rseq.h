/* SPDX-License-Identifier: MIT */
/*
 * The heap has no sequences for 64-bit ARM.
 */

#include "pools/engine/arch/generic/rseq.h"
