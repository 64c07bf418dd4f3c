/* SPDX-License-Identifier: MIT */
/*
 * See mte.h.
 */
#include "pools/engine/os/mte.h"

#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/syscall.h"

#include <sys/auxv.h>

/* As the kernel's headers name and number them; those of older systems lack them. */
#define PROT_MTE_BIT 0x20
#define HWCAP2_MTE_BIT ((unsigned long)1 << 18)
#define SET_TAGGED_ADDRESS_CONTROL 55
#define TAGGED_ADDRESSES 1 /* system calls accept pointers with tags */
#define FAULT_AT_ACCESS 2
#define DRAWN_TAGS_SHIFT 3
#define DRAWN_TAGS 0xfffeul /* all but 0 */

long ps_mte_access;

PS_AT_START bool ps_mte_start(void) {
    const unsigned long wanted =
        TAGGED_ADDRESSES | FAULT_AT_ACCESS | DRAWN_TAGS << DRAWN_TAGS_SHIFT;
    if (PS_MTE_HAS_INSTRUCTIONS && (ps_auxiliary(AT_HWCAP2) & HWCAP2_MTE_BIT) != 0 &&
        !ps_syscall_failed(ps_syscall3(SYS_prctl, SET_TAGGED_ADDRESS_CONTROL, (long)wanted, 0))) {
        ps_mte_access = PROT_MTE_BIT;
    }
    return ps_mte_is_on();
}
