/* SPDX-License-Identifier: MIT */
/*
 * See hugetlb.h.
 */
#include "pools/engine/os/hugetlb.h"

#include "pools/engine/base/digits.h"
#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <string.h>

/* Takes "Hugepagesize:    2048 kB" of /proc/meminfo. */
static void note_usual_bytes(void *context, char *line) {
    static const char name[] = "Hugepagesize:";
    if (strncmp(line, name, sizeof name - 1) != 0) {
        return;
    }
    const char *text = line + sizeof name - 1;
    while (*text == ' ') {
        text++;
    }
    uint64_t kib;
    if (ps_file_number(&text, &kib) && kib <= PS_HUGETLB_PAGE_BYTES_LIMIT >> 10) {
        *(size_t *)context = (size_t)kib << 10;
    }
}

size_t ps_hugetlb_usual_bytes(void) {
    size_t bytes = 0;
    char buffer[512];
    ps_file_lines("/proc/meminfo", buffer, sizeof buffer, note_usual_bytes, &bytes);
    return bytes;
}

int ps_hugetlb_probe(size_t page_bytes) {
    long probed = ps_syscall6(
        SYS_mmap, 0, (long)page_bytes, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | ps_hugetlb_flags(page_bytes), -1, 0);
    if (ps_syscall_failed(probed)) {
        return probed == -EINVAL || probed == -EOPNOTSUPP ? ENOSYS : (int)-probed;
    }
    (void)ps_syscall3(SYS_munmap, probed, (long)page_bytes, 0);
    return 0;
}

/* Reads a number of /sys about pages of one size. Returns false where there is none. */
static bool read_count(size_t page_bytes, const char *name, uint64_t *count) {
    char path[96] = "/sys/kernel/mm/hugepages/hugepages-";
    char digits[PS_DIGITS_BYTES];
    char text[32];
    if (!ps_path_append(path, sizeof path, ps_digits(digits, page_bytes >> 10, 10)) ||
        !ps_path_append(path, sizeof path, "kB/") || !ps_path_append(path, sizeof path, name)) {
        return false;
    }
    text[ps_file_read(path, text, sizeof text - 1)] = '\0';
    const char *at = text;
    return ps_file_number(&at, count);
}

uint64_t ps_hugetlb_count(size_t page_bytes) {
    uint64_t set_aside;
    uint64_t on_demand;
    if (!read_count(page_bytes, "nr_hugepages", &set_aside) ||
        !read_count(page_bytes, "nr_overcommit_hugepages", &on_demand)) {
        return UINT64_MAX;
    }
    return set_aside + on_demand;
}
