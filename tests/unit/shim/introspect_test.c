// sources: shim/introspect.c shim/stats.c shim/stats_table.c shim/stats_heaps.c shim/stats_json.c
// sources: shim/exit_output.c shim/report_open.c
// libc: glibc
// sources: shim/process.c shim/config.c shim/config_process.c shim/config_number.c
// sources: shim/config_value.c shim/config_report.c shim/environment.c shim/text.c
/* SPDX-License-Identifier: MIT */
/*
 * glibc's functions, served from a known census: each figure is the one that is documented.
 */
#include "pools/engine/heap/maintenance.h"
#include "shim/stats.h"
#include "tests/unit/shim/capture.h"
#include "tests/unit/shim/fake_census.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct capture capture;
static size_t trim_asked;
static bool trim_gives;

void ps_stats_live_start(void) {}

bool ps_maintenance_trim(size_t keep_bytes) {
    trim_asked = keep_bytes;
    return trim_gives;
}

/* The sizes are compared with those of the first call: later ones may have seen more. */
TEST(malloc_info_writes_glibcs_elements) {
    static char text[16384];
    fake_census_fill();
    FILE *stream = fmemopen(text, sizeof text, "w");
    REQUIRE(stream != NULL);
    CHECK_EQ(malloc_info(0, stream), 0);
    fclose(stream);
    CHECK_STR_EQ(text, "<malloc version=\"1\">\n"
                       "<heap nr=\"0\">\n"
                       "<sizes>\n"
                       "<size from=\"1\" to=\"16\" total=\"49536\" count=\"3096\"/>\n"
                       "<size from=\"17\" to=\"48\" total=\"130560\" count=\"2720\"/>\n"
                       "</sizes>\n"
                       "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
                       "<total type=\"rest\" count=\"5816\" size=\"10613520\"/>\n"
                       "<system type=\"current\" size=\"10930000\"/>\n"
                       "<system type=\"max\" size=\"10930000\"/>\n"
                       "<aspace type=\"total\" size=\"10930000\"/>\n"
                       "<aspace type=\"mprotect\" size=\"10930000\"/>\n"
                       "</heap>\n"
                       "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
                       "<total type=\"rest\" count=\"5816\" size=\"10613520\"/>\n"
                       "<total type=\"mmap\" count=\"2\" size=\"9000000\"/>\n"
                       "<system type=\"current\" size=\"10930000\"/>\n"
                       "<system type=\"max\" size=\"10930000\"/>\n"
                       "<aspace type=\"total\" size=\"10930000\"/>\n"
                       "<aspace type=\"mprotect\" size=\"10930000\"/>\n"
                       "</malloc>\n");
}

TEST(malloc_info_tells_the_most_so_far) {
    static char text[16384];
    fake_census_fill();
    fake_census.mapped_bytes -= 1000000;
    FILE *stream = fmemopen(text, sizeof text, "w");
    REQUIRE(stream != NULL);
    CHECK_EQ(malloc_info(0, stream), 0);
    fclose(stream);
    CHECK(strstr(text, "<system type=\"current\" size=\"9930000\"/>\n"
                       "<system type=\"max\" size=\"10930000\"/>\n") != NULL);
}

TEST(mallinfo2_adds_up_as_in_glibc) {
    fake_census_fill();
    struct mallinfo2 info = mallinfo2();
    CHECK_EQ(info.arena, 20000000 - 9000000 - 70000);
    CHECK_EQ(info.uordblks, 16480 + 300000);
    CHECK_EQ(info.arena, info.uordblks + info.fordblks);
    CHECK_EQ(info.hblks, 2);
    CHECK_EQ(info.hblkhd, 9000000);
    CHECK_EQ(info.keepcost, 400000 + 600000);
    CHECK_EQ(info.ordblks, (4096 - 1000) + (2 * 1365 - 10));
    CHECK_EQ(info.smblks + info.usmblks + info.fsmblks, 0);
}

TEST(figures_of_an_inconsistent_snapshot_do_not_wrap) {
    fake_census = (struct ps_census){.mapped_bytes = 10,
                                     .map_live_bytes = 20,
                                     .small_live_bytes = 640,
                                     .class_count = 1,
                                     .classes = {{.block_bytes = 64, .live_blocks = 10}}};
    struct mallinfo2 info = mallinfo2();
    CHECK_EQ(info.arena, 0);
    CHECK_EQ(info.fordblks, 0);
    CHECK_EQ(info.ordblks, 0);
    CHECK_EQ(info.uordblks, 640);
}

TEST(mallinfo_stops_at_the_largest_int) {
    fake_census_fill();
    fake_census.mapped_bytes = (uint64_t)1 << 40;
    fake_census.run_live_bytes = (uint64_t)INT_MAX + 1;
    struct mallinfo info = mallinfo();
    CHECK_EQ(info.arena, INT_MAX);
    CHECK_EQ(info.uordblks, INT_MAX);
    CHECK_EQ(info.hblkhd, 9000000);
    CHECK_EQ(info.hblks, 2);
}

TEST(malloc_info_refuses_options_and_writes_nothing) {
    static char text[64];
    FILE *stream = fmemopen(text, sizeof text, "w");
    REQUIRE(stream != NULL);
    CHECK_EQ(malloc_info(1, stream), EINVAL);
    CHECK_EQ(malloc_info(-1, stream), EINVAL);
    fclose(stream);
    CHECK_STR_EQ(text, "");
}

TEST(malloc_stats_prints_the_table_to_stderr) {
    fake_census_fill();
    int saved = dup(2);
    capture_start(&capture);
    dup2(capture.fd, 2);
    malloc_stats();
    dup2(saved, 2);
    close(saved);
    CHECK(strstr(capture_end(&capture), "20000000 bytes") != NULL);
}

TEST(malloc_trim_passes_the_pad_on_and_tells_the_outcome) {
    trim_gives = true;
    CHECK_EQ(malloc_trim(12345), 1);
    CHECK_EQ(trim_asked, 12345);
    trim_gives = false;
    CHECK_EQ(malloc_trim(0), 0);
    CHECK_EQ(trim_asked, 0);
}

TEST(mallopt_accepts_hints_and_refuses_what_it_cannot_do) {
    static const int hints[] = {M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX,
                                M_CHECK_ACTION,   M_ARENA_TEST, M_ARENA_MAX};
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        CHECK_EQ(mallopt(hints[i], 100), 1);
    }
    CHECK_EQ(mallopt(M_MXFAST, 160), 1);
    CHECK_EQ(mallopt(M_MXFAST, 161), 0);
    CHECK_EQ(mallopt(M_MXFAST, -1), 0);
    CHECK_EQ(mallopt(M_PERTURB, 1), 0);
    CHECK_EQ(mallopt(4711, 1), 0);
}

UNIT_MAIN
