/* SPDX-License-Identifier: MIT */
/*
 * The area of a thread while a child shares it: what the child writes and the parent restores.
 */
#include "pools/engine/os/vfork.h"
#include "tests/unit/unit.h"

TEST(parent_restores_the_processor_that_its_child_has_hidden) {
    struct ps_rseq_area area = {.x_cpu_start = 3, .x_cpu = 3};
    if (!PS_HAS_RSEQ) {
        return;
    }
    ps_rseq_suspend(&area);
    CHECK_EQ(area.x_cpu, PS_RSEQ_NO_CPU);
    CHECK_EQ(area.x_cpu_start, 3);
    ps_rseq_resume(&area);
    CHECK_EQ(area.x_cpu, 3);
}

TEST(parent_keeps_the_processor_that_the_kernel_has_written) {
    struct ps_rseq_area area = {.x_cpu_start = 3, .x_cpu = 3};
    ps_rseq_suspend(&area);
    area = (struct ps_rseq_area){.x_cpu_start = 0, .x_cpu = 5}; /* as if between two instructions */
    ps_rseq_resume(&area);
    CHECK_EQ(area.x_cpu, 5);
}

TEST(thread_that_is_not_registered_has_no_area) {
    CHECK(!ps_rseq_is_on());
    CHECK(ps_rseq_area() == NULL);
}

UNIT_MAIN
