/* SPDX-License-Identifier: MIT */
/*
 * See control.h. In the data of the library, initialised and a page of its own: a process that is
 * asked for nothing and has one thread does not write there.
 */
#include "pools/engine/heap/control.h"

struct ps_control poolshim_control = {
    .magic = PS_CONTROL_MAGIC, .version = PS_CONTROL_VERSION, .bytes = sizeof(struct ps_control)};

void ps_control_add(uint64_t bytes) {
    ps_add_relaxed(&poolshim_control.x_result_bytes, bytes); /* relaxed: see the next */
}

void ps_control_finish(uint32_t request, enum ps_control_result result) {
    ps_store_relaxed(&poolshim_control.x_result, (uint32_t)result); /* relaxed: see the next */
    /* release: a process that reads it reads the results, too. */
    ps_store_release(&poolshim_control.x_done, request);
}
