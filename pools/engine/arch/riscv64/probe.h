/* SPDX-License-Identifier: MIT */
/*
 * Tracers name no registers of RISC-V.
 */

#include "pools/engine/arch/generic/probe.h"
