/* SPDX-License-Identifier: MIT */
/* Takes a block from a region: the headers and the library are there, and fit together. */
#include <poolshim/region.h>
#include <stdio.h>

int main(void) {
    struct ps_region *region = ps_region_create(NULL);
    const char *text = region == NULL ? NULL : ps_region_printf(region, "%d blocks", 1);
    if (text == NULL) {
        return 1;
    }
    puts(text);
    ps_region_destroy(region);
    return 0;
}
