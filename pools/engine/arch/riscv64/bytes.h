/* SPDX-License-Identifier: MIT */
/*
 * Words of RISC-V, which lie at multiples of their length.
 */

#include "pools/engine/arch/generic/bytes.h"

#define PS_BYTES_AT_ANY_ADDRESS false
