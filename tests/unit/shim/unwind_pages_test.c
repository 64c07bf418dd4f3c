// sources: tests/unit/fake_os.c shim/unwind_pages.c shim/unwind_object.c shim/preloaded/loader.c
// sources: shim/unwind_head.c shim/unwind_table.c shim/unwind_table_ops.c
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * Which pages of unwind tables are dropped. Mappings of a file of zeros, to which an image was
 * written, stand for loaded files: a page that was dropped reads as zeros.
 */
#include "shim/unwind.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/unit.h"

#include <link.h>
#include <stdbool.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define PAGES ((size_t)16)
#define TABLES_PAGE ((size_t)4) /* the tables begin in its middle */
#define TABLES (TABLES_PAGE * PAGE + 128)
#define DYNAMIC (3 * PAGE)
#define ROWS 64
#define INDEX_HEAD 12
#define MARK 0x5a
#define BURST 32 /* of the first drops, which no time has to pass between */
#define PERIOD_MS 10

struct image {
    unsigned char *memory;
    struct ps_unwind_object object;
};

struct kind {
    unsigned flags; /* of the part */
    size_t first;   /* address of the part in the file */
    size_t file_bytes;
    size_t gap; /* between the index and the entries */
    ElfW(Dyn) dynamic;
};

static const struct kind clean = {.flags = PF_R, .file_bytes = PAGES * PAGE};

static void put_headers(unsigned char *memory, const struct kind *kind) {
    ElfW(Ehdr) *header = (ElfW(Ehdr) *)memory;
    ElfW(Phdr) *parts = (ElfW(Phdr) *)(memory + sizeof *header);
    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_phoff = sizeof *header;
    header->e_phnum = 2;
    parts[0] = (ElfW(Phdr)){.p_type = PT_LOAD,
                            .p_flags = kind->flags,
                            .p_vaddr = kind->first,
                            .p_filesz = kind->file_bytes,
                            .p_memsz = PAGES * PAGE};
    parts[1] = (ElfW(Phdr)){.p_type = PT_DYNAMIC,
                            .p_vaddr = kind->first + DYNAMIC,
                            .p_memsz = 2 * sizeof kind->dynamic};
    memcpy(memory + DYNAMIC, &kind->dynamic, sizeof kind->dynamic);
    memset(memory + DYNAMIC + sizeof kind->dynamic, 0, sizeof kind->dynamic);
}

/* An index of 64 rows, and entries after it. */
static void put_index(unsigned char *index, size_t gap) {
    static const unsigned char encodings[] = {1, 0x1b, 0x03, 0x3b};
    int32_t distance = (int32_t)(INDEX_HEAD - 4 + 8 * ROWS + gap);
    uint32_t rows = ROWS;
    memcpy(index, encodings, sizeof encodings);
    memcpy(index + 4, &distance, sizeof distance);
    memcpy(index + 8, &rows, sizeof rows);
}

static struct image make(const struct kind *kind) {
    struct image image;
    if (sysconf(_SC_PAGESIZE) != (long)PAGE) {
        UNIT_SKIP("the images have pages of 4 KiB");
    }
    int file = memfd_create("image", 0);
    REQUIRE(file >= 0 && ftruncate(file, (off_t)(PAGES * PAGE)) == 0);
    void *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    REQUIRE(memory != MAP_FAILED && close(file) == 0);
    image.memory = memory;
    memset(image.memory, MARK, PAGES * PAGE);
    put_headers(image.memory, kind);
    put_index(image.memory + TABLES, kind->gap);
    image.object = (struct ps_unwind_object){.start = (uintptr_t)memory,
                                             .end = (uintptr_t)memory + PAGES * PAGE,
                                             .index = image.memory + TABLES};
    return image;
}

/* Pages that were dropped, each as a bit. */
static unsigned dropped(const struct image *image) {
    unsigned bits = 0;
    for (size_t i = 0; i < PAGES; i++) {
        bits |= (unsigned)(image->memory[i * PAGE + PAGE - 1] != MARK) << i;
    }
    return bits;
}

static unsigned pages(size_t from, size_t to) { return (1u << to) - (1u << from); }

static unsigned dropped_of(const struct kind *kind, bool is_certain) {
    struct image image = make(kind);
    fake_os_advance_ms((uint64_t)BURST * PERIOD_MS);
    ps_unwind_pages_drop(&image.object, is_certain);
    unsigned bits = dropped(&image);
    (void)munmap(image.memory, PAGES * PAGE);
    return bits;
}

TEST(pages_of_tables_are_dropped_and_no_others) {
    GIVEN("tables that begin in the fifth page and end with the part");
    CHECK_EQ(dropped_of(&clean, true), pages(TABLES_PAGE + 1, PAGES));
    GIVEN("a part that ends before");
    struct kind kind = clean;
    kind.file_bytes = 9 * PAGE + 1;
    CHECK_EQ(dropped_of(&kind, true), pages(TABLES_PAGE + 1, 10));
    GIVEN("a file whose addresses do not begin at zero");
    kind = clean;
    kind.first = 0x400000;
    CHECK_EQ(dropped_of(&kind, true), pages(TABLES_PAGE + 1, PAGES));
    GIVEN("other data between the index and the entries");
    kind = clean;
    kind.gap = 3 * PAGE;
    CHECK_EQ(dropped_of(&kind, true), pages(TABLES_PAGE + 4, PAGES));
}

TEST(pages_that_may_differ_from_the_file_remain) {
    struct kind kind = clean;
    GIVEN("a part that is writable");
    kind.flags = PF_R | PF_W;
    CHECK_EQ(dropped_of(&kind, true), 0);
    GIVEN("relocations in code");
    kind = clean;
    kind.dynamic.d_tag = DT_TEXTREL;
    CHECK_EQ(dropped_of(&kind, true), 0);
    kind.dynamic.d_tag = DT_FLAGS;
    kind.dynamic.d_un.d_val = DF_TEXTREL;
    CHECK_EQ(dropped_of(&kind, true), 0);
    kind.dynamic.d_un.d_val = DF_BIND_NOW;
    CHECK_NE(dropped_of(&kind, true), 0);
    GIVEN("tables outside of what was read from the file");
    kind = clean;
    kind.file_bytes = TABLES_PAGE * PAGE;
    CHECK_EQ(dropped_of(&kind, true), 0);
}

TEST(pages_of_a_library_that_may_be_gone_remain) { CHECK_EQ(dropped_of(&clean, false), 0); }

TEST(damaged_files_lose_no_pages) {
    struct image image = make(&clean);
    fake_os_advance_ms((uint64_t)BURST * PERIOD_MS);
    GIVEN("an index of another version");
    image.memory[TABLES] = 2;
    ps_unwind_pages_drop(&image.object, true);
    CHECK_EQ(dropped(&image), 0);
    image.memory[TABLES] = 1;
    GIVEN("no index");
    image.object.index = NULL;
    ps_unwind_pages_drop(&image.object, true);
    image.object.index = image.memory + TABLES;
    GIVEN("no ELF header");
    image.memory[0] = 0;
    ps_unwind_pages_drop(&image.object, true);
    memcpy(image.memory, ELFMAG, SELFMAG);
    GIVEN("program headers beyond the first page");
    ((ElfW(Ehdr) *)image.memory)->e_phoff = PAGE;
    ps_unwind_pages_drop(&image.object, true);
    CHECK_EQ(dropped(&image), 0);
    (void)munmap(image.memory, PAGES * PAGE);
}

TEST(drops_are_as_frequent_as_time_passes) {
    struct image image = make(&clean);
    unsigned count = 0;
    fake_os_advance_ms((uint64_t)2 * BURST * PERIOD_MS);
    WHEN("tables are read again and again");
    for (int i = 0; i < 4 * BURST; i++) {
        memset(image.memory + TABLES + PAGE, MARK, PAGES * PAGE - TABLES - PAGE);
        ps_unwind_pages_drop(&image.object, true);
        count += dropped(&image) != 0;
    }
    THEN("the first ones are dropped");
    CHECK_CMP(count, >=, BURST);
    CHECK_CMP(count, <=, BURST + 1);
    WHEN("time has passed");
    fake_os_advance_ms(PERIOD_MS);
    memset(image.memory + TABLES + PAGE, MARK, PAGES * PAGE - TABLES - PAGE);
    ps_unwind_pages_drop(&image.object, true);
    THEN("one more is");
    CHECK_NE(dropped(&image), 0);
    memset(image.memory + TABLES + PAGE, MARK, PAGES * PAGE - TABLES - PAGE);
    ps_unwind_pages_drop(&image.object, true);
    CHECK_EQ(dropped(&image), 0);
    (void)munmap(image.memory, PAGES * PAGE);
}

/* True if a page is in this process. */
static bool is_present(uintptr_t address) {
    uint64_t word = 0;
    FILE *pages_of = fopen("/proc/self/pagemap", "rb");
    REQUIRE(pages_of != NULL);
    (void)setvbuf(pages_of, NULL, _IONBF, 0);
    REQUIRE(fseek(pages_of, (long)(address / PAGE * sizeof word), SEEK_SET) == 0);
    REQUIRE(fread(&word, sizeof word, 1, pages_of) == 1);
    (void)fclose(pages_of);
    return word >> 63 != 0;
}

/* The last page of this program's tables is read, and dropped; then it is in the process or not. */
static bool remains_of_program(void) {
    struct ps_unwind_object program;
    REQUIRE(ps_unwind_object_find((uintptr_t)remains_of_program, &program));
    uint32_t rows;
    memcpy(&rows, program.index + 8, sizeof rows);
    uintptr_t page = ((uintptr_t)program.index + INDEX_HEAD + 8 * rows + PAGE) / PAGE * PAGE;
    (void)*(volatile const unsigned char *)page;
    REQUIRE(is_present(page));
    fake_os_advance_ms((uint64_t)BURST * PERIOD_MS);
    ps_unwind_pages_drop(&program, false);
    return is_present(page);
}

TEST(pages_of_the_program_are_dropped) {
    ps_unwind_object_start();
    CHECK(!remains_of_program());
}

/* Puts anonymous memory in the place of a page, with the same contents. */
static void move(const struct image *image, size_t page) {
    unsigned char *place = image->memory + page * PAGE;
    void *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(copy != MAP_FAILED);
    memcpy(copy, place, PAGE);
    REQUIRE(mremap(copy, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
}

static void check_moved(size_t page) {
    struct image image = make(&clean);
    move(&image, page);
    fake_os_advance_ms((uint64_t)BURST * PERIOD_MS);
    ps_unwind_pages_drop(&image.object, true);
    CHECK_EQ(dropped(&image), 0);
    THEN("a child of fork has the memory, too");
    pid_t child = unit_fork();
    if (child == 0) {
        CHECK_EQ(dropped(&image), 0);
    }
    unit_join_child(child);
    THEN("nothing else is dropped in this process");
    CHECK_EQ(dropped_of(&clean, true), 0);
}

TEST(memory_that_is_no_longer_of_the_file_remains) {
    static const size_t moved[] = {PAGES - 1, TABLES_PAGE + 1};
    GIVEN("a file of whose tables the last page is in anonymous memory, or the first");
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        pid_t child = unit_fork();
        if (child == 0) {
            check_moved(moved[i]);
        }
        unit_join_child(child);
    }
}

UNIT_MAIN
