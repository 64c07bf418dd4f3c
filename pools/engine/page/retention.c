/* SPDX-License-Identifier: MIT */
/*
 * See retention.h.
 */
#include "pools/engine/page/retention.h"

uint32_t ps_retention_delay;
uint32_t ps_retention_x_pressure;

void ps_retention_start(uint32_t delay_ms) { ps_retention_delay = delay_ms; }
