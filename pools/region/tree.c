/* SPDX-License-Identifier: MIT */
/*
 * Parents and children, and the order in which a tree of regions ends. Callers: users, region.c.
 */
#include "pools/region/region.h"

#include <errno.h>

void ps_region_link(struct ps_region_state *region, struct ps_region_state *parent) {
    region->parent = parent;
    region->next_sibling = parent->child;
    region->sibling_link = &parent->child;
    if (region->next_sibling != NULL) {
        region->next_sibling->sibling_link = &region->next_sibling;
    }
    parent->child = region;
}

void ps_region_unlink(struct ps_region_state *region) {
    if (region->parent != NULL) {
        *region->sibling_link = region->next_sibling;
        if (region->next_sibling != NULL) {
            region->next_sibling->sibling_link = region->sibling_link;
        }
        region->parent = NULL;
        region->next_sibling = NULL;
    }
}

/*
 * Depth first without recursion: down to a region without children, up again when it is done. A
 * region is done when a whole round finds nothing, since each callback may register more, even
 * children. Ends when the callbacks stop doing so.
 */
void ps_region_settle(struct ps_region_state *region) {
    struct ps_region_state *node = region;
    for (;;) {
        node->is_ending = true;
        ps_region_run_all(node, &node->early_cleanups);
        if (node->child != NULL) {
            node = node->child;
            continue;
        }
        ps_region_run_all(node, &node->cleanups);
        if (node->early_cleanups == NULL && node->child == NULL) {
            ps_region_drop_data(node);
        }
        if (ps_region_has_callbacks(node)) {
            continue;
        }
        if (node == region) {
            return;
        }
        struct ps_region_state *parent = node->parent;
        ps_region_unlink(node);
        ps_region_verify(node);
        ps_region_release(node);
        node = parent;
    }
}

bool ps_region_set_parent(struct ps_region *public, struct ps_region *parent) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    if (region->is_ending) {
        errno = EBUSY;
        return false;
    }
    if (parent != NULL && ps_region_is_ancestor(public, parent)) {
        errno = EINVAL;
        return false;
    }
    ps_region_unlink(region);
    if (parent != NULL) {
        ps_region_link(region, ps_region_state(parent));
    }
    return true;
}

struct ps_region *ps_region_parent(const struct ps_region *region) {
    struct ps_region_state *parent = ps_region_const_state(region)->parent;
    return parent != NULL ? &parent->hot : NULL;
}

bool ps_region_is_ancestor(const struct ps_region *ancestor, const struct ps_region *region) {
    const struct ps_region_state *node = ps_region_const_state(region);
    while (node != NULL && &node->hot != ancestor) {
        node = node->parent;
    }
    return node != NULL;
}
