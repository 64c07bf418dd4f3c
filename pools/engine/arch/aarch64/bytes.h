/* SPDX-License-Identifier: MIT */
/*
 * Words of 64-bit ARM, which may lie at any address.
 */

#include "pools/engine/arch/generic/bytes.h"

#define PS_BYTES_AT_ANY_ADDRESS true
