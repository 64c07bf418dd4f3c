/* SPDX-License-Identifier: MIT */
/*
 * See hard.h: small blocks of partitions (heap/partition_path.h), from level 2 on.
 */
#include "pools/engine/front/store.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_life.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/partition_path.h"

/* Takes a random one of a batch. */
void *ps_hard_take_in(struct ps_partition *partition, uint32_t class_index) {
    void *blocks[PS_STORE_BATCH];
    bool has_fronts = partition->fronts != NULL;
    size_t count = has_fronts
                       ? ps_partition_refill(partition, class_index, blocks)
                       : ps_partition_take_some(partition, class_index, blocks, PS_STORE_BATCH);
    if (count == 0) {
        return NULL;
    }
    ps_hard_prepare(blocks, count);
    for (; has_fronts && count > 1; count--) {
        ps_partition_put(partition, class_index, blocks[count - 1]);
    }
    if (count > 1) {
        ps_store_give(class_index, &blocks[1], count - 1);
    }
    return blocks[0];
}

void *ps_hard_alloc_in(struct ps_partition *partition, uint32_t class_index, size_t bytes) {
    void *block = partition->fronts != NULL ? ps_partition_pop(partition, class_index) : NULL;
    block = block != NULL ? block : ps_hard_take_in(partition, class_index);
    return block != NULL
               ? ps_hard_begin_life(block, ps_size_classes[class_index].block_bytes, bytes)
               : NULL;
}

/* Returns a block that leaves the quarantine. */
void ps_hard_leave(uint32_t class_index, void *block) {
    const struct ps_slab *slab = ps_slab_of(block);
    struct ps_partition *partition = slab->extent != NULL ? ps_partition_of_slab(slab) : NULL;
    if (partition != NULL && partition->fronts != NULL) {
        ps_partition_put(partition, class_index, block);
    } else if (partition != NULL) {
        ps_store_give(class_index, &block, 1);
    } else {
        ps_front_put(&ps_front_table, class_index, block);
    }
}
