// expect: exit 0 "POOLSHIM_HARDEN: " "Memory Tagging Extension of 64-bit ARM" "; using 0"
// env: POOLSHIM_HARDEN=mte
/* SPDX-License-Identifier: MIT */
/* A machine without memory tags serves the program as without the option, and says so in one line.
 */
#include "mte.h"

#include <string.h>

int main(void) {
    if (machine_has_tags()) {
        puts("this machine has memory tags");
        return 77;
    }
    char *block = claim_hide(malloc(100));
    memset(block, 1, 100);
    free(claim_hide(realloc(block, 100000)));
    return 0;
}
