/* SPDX-License-Identifier: MIT */
/*
 * See rseq.h.
 */
#include "pools/engine/os/rseq.h"

#include "pools/engine/os/os.h"

ptrdiff_t ps_rseq_offset;

void ps_rseq_start(void) { ps_rseq_offset = PS_HAS_RSEQ ? ps_os_rseq_offset() : 0; }
