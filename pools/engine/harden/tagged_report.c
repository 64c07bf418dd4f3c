/* SPDX-License-Identifier: MIT */
/*
 * Reports of accesses by a pointer whose tag is not that of its memory: see tagged.h, report.h. In
 * the signal handler: the memory of other threads' blocks may change meanwhile, and slots are never
 * unmapped.
 */
#include "pools/engine/front/slab.h"
#include "pools/engine/harden/report.h"
#include "pools/engine/harden/tagged.h"
#include "pools/engine/os/mte.h"

#define FAR "access far from its block"

/* The mistake, as far as the tags tell, and the block that was missed. */
struct finding {
    const char *what;
    const char *block; /* NULL: unknown */
    size_t bytes;
};

static bool has_tag(const struct ps_slab *slab, size_t index, unsigned tag) {
    const struct ps_size_class *class = ps_slab_class(slab);
    return index >= class->first && index < class->limit &&
           ps_mte_tag(ps_mte_load(ps_slab_block(slab, index))) == tag;
}

/*
 * A stale pointer has a tag of the same parity as the block has now, and a pointer to a neighbour
 * one of the other. So the pointer came from a neighbour if that has its tag; of two that have, the
 * nearer one is meant. tag: the pointer's.
 */
static struct finding find(const struct ps_slab *slab, const char *address, unsigned tag) {
    size_t block_bytes = ps_slab_class(slab)->block_bytes;
    size_t index = (size_t)(address - slab->run.base) / block_bytes;
    size_t offset = (size_t)(address - slab->run.base) % block_bytes;
    bool is_of_lower = index != 0 && has_tag(slab, index - 1, tag);
    bool is_of_upper = has_tag(slab, index + 1, tag);
    struct finding found = {"use after free", ps_slab_block(slab, index), block_bytes};
    bool may_be_stale = ps_mte_tag(ps_mte_load(found.block)) % 2 == tag % 2;
    if (is_of_lower && (!is_of_upper || offset < block_bytes / 2)) {
        found.what = "heap overflow";
        found.block -= block_bytes;
    } else if (is_of_upper) {
        found.what = "heap underflow";
        found.block += block_bytes;
    } else if (!may_be_stale) {
        found = (struct finding){.what = FAR};
    }
    return found;
}

/* Any address with its pointer's tag; the access has faulted because the memory has another. */
static struct finding find_any(const char *pointer) {
    const char *address = ps_mte_strip(pointer);
    const struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(address), address);
    return slab != NULL ? find(slab, address, ps_mte_tag(pointer)) : (struct finding){.what = FAR};
}

static bool claim(const struct ps_fault *fault) {
    if (!fault->is_of_tags) {
        return false;
    }
    if (ps_report_begin()) {
        const struct finding found = find_any(fault->address);
        struct ps_report line = {.length = 0};
        ps_report_add_text(&line, "poolshim: ");
        ps_report_add_text(&line, found.what);
        ps_report_add_text(&line, ps_report_access(fault));
        ps_report_add_text(&line, " at ");
        ps_report_add_address(&line, ps_mte_strip(fault->address));
        if (found.block != NULL) {
            ps_report_add_place(&line, ps_mte_strip(fault->address), found.block, found.bytes);
        }
        ps_report_add_text(&line, ", by pointer ");
        ps_report_add_address(&line, fault->address);
        ps_report_end_line(&line);
        ps_report_write_here(fault->instruction);
        ps_report_done();
    }
    return true;
}

PS_AT_START void ps_tagged_watch(void) {
    if (ps_mte_is_on()) {
        ps_fault_watch(claim);
    }
}
