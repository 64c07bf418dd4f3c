/* SPDX-License-Identifier: MIT */
/*
 * The limit of control groups, read from trees of files that each test writes below a folder of its
 * own: /proc/self, and the mounted hierarchies.
 */
#include "pools/engine/os/cgroup.h"

#include "pools/engine/base/bits.h"
#include "tests/unit/file_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define KIB 1024u
#define TEXT_BYTES 20000

static struct ps_cgroup group;

static void put_proc(const char *groups, const char *mounts) {
    put("/proc/self/cgroup", groups);
    put("/proc/self/mountinfo", mounts);
}

static void read_tree(void) {
    errno = 4711;
    ps_cgroup_read(root, &group);
    CHECK_EQ(errno, 4711);
}

static void check_limit(uint64_t bytes, enum ps_cgroup_source source) {
    read_tree();
    CHECK_EQ(group.limit_bytes, bytes);
    CHECK_EQ(group.source, source);
}

#define PLAIN_MOUNTS                                                                               \
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"                                              \
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"
#define MOUNT_2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_1 "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define MOUNT_CPU "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
#define MOUNT_UNIFIED "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
#define NO_LIMIT_1 "9223372036854771712\n"

TREE_TEST(version_2_has_memory_max) {
    put_proc("0::/user.slice/app\n", PLAIN_MOUNTS MOUNT_2);
    put("/sys/fs/cgroup/user.slice/app/memory.max", "1048576\n");
    put("/sys/fs/cgroup/user.slice/app/memory.high", "max\n");
    check_limit(1024 * KIB, PS_CGROUP_MAX);
}

TREE_TEST(the_lowest_limit_on_the_path_counts) {
    put_proc("0::/a/b/c\n", PLAIN_MOUNTS MOUNT_2);
    put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.max", "2097152\n");
    put("/sys/fs/cgroup/a/memory.max", "3145728\n");
    put("/sys/fs/cgroup/a/b/c/d/memory.max", "4096\n"); /* of a group below */
    put("/sys/fs/cgroup/other/memory.max", "4096\n");
    check_limit(2048 * KIB, PS_CGROUP_MAX);
    put("/sys/fs/cgroup/a/memory.max", "1048576\n");
    check_limit(1024 * KIB, PS_CGROUP_MAX);
    put("/sys/fs/cgroup/a/b/memory.high", "524288\n");
    check_limit(512 * KIB, PS_CGROUP_HIGH);
}

TREE_TEST(version_1_has_limit_in_bytes) {
    put_proc("5:devices:/\n4:memory:/docker/0123\n3:cpuset:/x\n0::/\n",
             PLAIN_MOUNTS MOUNT_CPU MOUNT_1);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", NO_LIMIT_1);
    put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "8388608\n");
    put("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "4194304\n");
    check_limit(4096 * KIB, PS_CGROUP_LIMIT);
    CHECK_STR_EQ(group.pressure, "");
    put("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", NO_LIMIT_1);
    check_limit(8192 * KIB, PS_CGROUP_LIMIT);
}

TREE_TEST(memory_among_other_controllers_of_version_1) {
    put_proc("2:cpu,memory,cpuacct:/a\n",
             "35 31 0:32 / /cg rw - cgroup cgroup rw,cpu,memory,cpuacct\n");
    put("/cg/a/memory.limit_in_bytes", "1048576\n");
    check_limit(1024 * KIB, PS_CGROUP_LIMIT);
    put_proc("2:cpu,memoryless:/a\n", "35 31 0:32 / /cg rw - cgroup cgroup rw,cpu,memory\n");
    check_limit(UINT64_MAX, PS_CGROUP_NONE);
}

TREE_TEST(hybrid_hierarchies_give_the_lower_of_both) {
    put_proc("4:memory:/job\n0::/job\n", PLAIN_MOUNTS MOUNT_1 MOUNT_UNIFIED);
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2097152\n");
    put("/sys/fs/cgroup/unified/job/cgroup.procs", "1\n");
    put("/sys/fs/cgroup/unified/job/memory.pressure", "some avg10=0.00\n");
    check_limit(2048 * KIB, PS_CGROUP_LIMIT);
    CHECK(strstr(group.pressure, "/unified/job/memory.pressure") != NULL);
    put("/sys/fs/cgroup/unified/job/memory.max", "1048576\n");
    check_limit(1024 * KIB, PS_CGROUP_MAX);
}

TREE_TEST(a_container_without_a_namespace_sees_its_group_at_the_mount_point) {
    put_proc("4:memory:/docker/0123\n",
             "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
    check_limit(1024 * KIB, PS_CGROUP_LIMIT);
    put_proc("4:memory:/docker/0123/inner\n",
             "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "524288\n");
    check_limit(512 * KIB, PS_CGROUP_LIMIT);
}

TREE_TEST(a_group_outside_of_the_namespace_or_the_mount_is_read_at_the_mount_point) {
    put("/sys/fs/cgroup/memory.max", "1048576\n");
    put_proc("0::/../other\n", MOUNT_2);
    check_limit(1024 * KIB, PS_CGROUP_MAX);
    put_proc("0::/\n", "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    check_limit(1024 * KIB, PS_CGROUP_MAX);
    put_proc("0::/ab\n", "30 23 0:26 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/b/memory.max", "4096\n"); /* /ab is not below /a */
    check_limit(1024 * KIB, PS_CGROUP_MAX);
}

TREE_TEST(optional_fields_and_escaped_characters_of_mounts_are_read) {
    put_proc("0::/my group\n", "30 23 0:26 /my\\040group /cg\\134a\\040b rw shared:1 master:2 "
                               "propagate_from:3 - cgroup2 none rw\n");
    put("/cg\\a b/memory.max", "1048576\n");
    check_limit(1024 * KIB, PS_CGROUP_MAX);
}

TREE_TEST(a_group_that_was_deleted_leaves_those_above) {
    put_proc("0::/a/b (deleted)\n", MOUNT_2);
    put("/sys/fs/cgroup/a/memory.max", "1048576\n");
    check_limit(1024 * KIB, PS_CGROUP_MAX);
}

TREE_TEST(garbage_is_no_limit) {
    static const char *const values[] = {"max\n", "",     "\n",        "-1\n",
                                         "0\n",   "12x4", " 1048576",  "99999999999999999999999\n",
                                         "1.5\n", "0x10", "1048576 1", "\x01\xff\n"};
    put_proc("0::/a\n", MOUNT_2);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        put("/sys/fs/cgroup/a/memory.max", values[i]);
        check_limit(UINT64_MAX, PS_CGROUP_NONE);
    }
    put("/sys/fs/cgroup/a/memory.max", "1048576"); /* without a newline */
    check_limit(1024 * KIB, PS_CGROUP_MAX);
}

TREE_TEST(broken_tables_are_no_limit) {
    static const char *const groups[] = {"",     "\n",        ":",          "::",
                                         "0:",   "0::",       "x",          "0::a",
                                         "0::/", "4:memory:", "4:memory:a", "4:memory"};
    static const char *const mounts[] = {"",
                                         "\n",
                                         " - ",
                                         " - cgroup2",
                                         "1 - cgroup2 cgroup2 rw\n",
                                         "1 2 3 - cgroup2 x y\n",
                                         "1 2 3 / /nowhere rw cgroup2 cgroup2 rw\n",
                                         " - cgroup x memory\n"};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (size_t j = 0; j < sizeof mounts / sizeof mounts[0]; j++) {
            put_proc(groups[i], mounts[j]);
            check_limit(UINT64_MAX, PS_CGROUP_NONE);
        }
    }
}

TREE_TEST(without_proc_there_is_no_limit) {
    check_limit(UINT64_MAX, PS_CGROUP_NONE);
    put("/proc/self/cgroup", "0::/a\n");
    check_limit(UINT64_MAX, PS_CGROUP_NONE);
    CHECK_EQ(ps_cgroup_pressure(&group), 0);
}

/* A line of mountinfo as an overlay with many layers has it. */
static void add_overlay(char *text, size_t bytes) {
    strcat(text, "50 1 0:50 / /layers rw - overlay overlay rw,lowerdir=");
    size_t length = strlen(text);
    memset(text + length, 'l', bytes);
    strcpy(text + length + bytes, "\n");
}

TREE_TEST(long_lines_hide_no_others) {
    static char mounts[TEXT_BYTES];
    for (size_t bytes = 4000; bytes < 12500; bytes += 17) {
        mounts[0] = '\0';
        add_overlay(mounts, bytes);
        strcat(mounts, MOUNT_2);
        put_proc("0::/a\n", mounts);
        put("/sys/fs/cgroup/a/memory.max", "1048576\n");
        check_limit(1024 * KIB, PS_CGROUP_MAX);
    }
}

TREE_TEST(paths_that_are_too_long_are_left_out) {
    char groups[3000] = "0::/";
    memset(groups + 4, 'g', 1500);
    strcpy(groups + 1504, "\n");
    put_proc(groups, MOUNT_2);
    check_limit(UINT64_MAX, PS_CGROUP_NONE);
}

TREE_TEST(memory_pressure_is_read_in_hundredths_of_a_per_cent) {
    static const struct {
        const char *text;
        uint32_t hundredths;
    } cases[] = {
        {"some avg10=12.34 avg60=1.00 avg300=0.00 total=5\nfull avg10=1.00\n", 1234},
        {"some avg10=0.05 avg60=0.00 avg300=0.00 total=5\n", 5},
        {"some avg10=100.00 avg60=0.00\n", 10000},
        {"some avg10=7 avg60=0.00\n", 0},
        {"full avg10=12.34\n", 0},
        {"some avg10=4000.00\n", 0},
        {"some avg10=1.5 \n", 0},
        {"some", 0},
        {"x", 0},
    };
    put_proc("0::/a/b\n", MOUNT_2);
    put("/sys/fs/cgroup/a/memory.pressure", "some avg10=99.00 avg60=0.00\n"); /* of more groups */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("/sys/fs/cgroup/a/b/memory.pressure", cases[i].text);
        read_tree();
        CHECK_EQ(ps_cgroup_pressure(&group), cases[i].hundredths);
    }
}

TREE_TEST(no_descriptor_stays_open) {
    put_proc("0::/a\n", MOUNT_2);
    put("/sys/fs/cgroup/a/memory.max", "1048576\n");
    put("/sys/fs/cgroup/a/memory.pressure", "some avg10=1.00\n");
    int lowest = dup(0);
    REQUIRE(lowest >= 0);
    close(lowest);
    read_tree();
    (void)ps_cgroup_pressure(&group);
    int after = dup(0);
    CHECK_EQ(after, lowest);
    close(after);
}

UNIT_MAIN
