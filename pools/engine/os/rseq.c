/* SPDX-License-Identifier: MIT */
/*
 * See rseq.h.
 */
#include "pools/engine/os/rseq.h"

#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/os.h"

ptrdiff_t ps_rseq_offset;

void ps_rseq_start(void) { ps_rseq_offset = PS_HAS_RSEQ ? ps_os_rseq_offset() : 0; }

/* Numbers of the kernel's interface; the headers of an older system may lack them. */
#define AREA_CPU_ID 4
#define AREA_CONCURRENCY_ID 24
#define AREA_BYTES_WITH_ID 28
#define AUXILIARY_AREA_BYTES 27 /* AT_RSEQ_FEATURE_SIZE */

ptrdiff_t ps_rseq_id_offset(void) {
    bool has_id = ps_auxiliary(AUXILIARY_AREA_BYTES) >= AREA_BYTES_WITH_ID;
    return ps_rseq_is_on() ? ps_rseq_offset + (has_id ? AREA_CONCURRENCY_ID : AREA_CPU_ID) : 0;
}
