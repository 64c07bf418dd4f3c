/* SPDX-License-Identifier: MIT */
/*
 * The heap has no sequences for RISC-V.
 */

#include "pools/engine/arch/generic/rseq.h"
