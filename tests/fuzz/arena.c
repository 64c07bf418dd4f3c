// links: pools
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: opening an arena's file and journal that are damaged, cut, mixed up or no arena at
 * all. Opening ends with a status, whatever the bytes are; a file that was refused is as it was;
 * and what opens with all sums right is one of the states that were committed, and works.
 */
#include "tests/fuzz/lib/fuzz.h"
#include "tests/pools/arena_work.h"

#include "pools/arena/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { COMMITS = 4, IMAGES = 4, FILE_BYTES_MAX = 1 << 18, EDITS_MAX = 64 };

struct image {
    uint8_t *bytes;
    size_t count;
};

/* After a close; with a journal, after a death; an empty arena; one that never got to be one. */
static struct image files[IMAGES];
static struct image journals[IMAGES];
static struct work_model models[COMMITS + 1]; /* after so many commits */
static char path[PATH_MAX];
static char journal_path[PATH_MAX + 16];
static uint8_t scratch[FILE_BYTES_MAX];

static struct image read_image(const char *name) {
    struct image image = {NULL, 0};
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, scratch, sizeof scratch);
        FUZZ_CHECK(got >= 0 && (size_t)got < sizeof scratch);
        close(fd);
        image.count = (size_t)got;
        image.bytes = malloc(image.count + 1);
        FUZZ_CHECK(image.bytes != NULL);
        memcpy(image.bytes, scratch, image.count);
    }
    return image;
}

static void write_image(const char *name, struct image image) {
    if (image.bytes == NULL) {
        unlink(name);
        return;
    }
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, image.bytes, image.count) == (ssize_t)image.count);
    close(fd);
}

static bool is_same(const char *name, struct image image) {
    struct image now = read_image(name);
    bool same = (now.bytes == NULL) == (image.bytes == NULL) && now.count == image.count &&
                (now.bytes == NULL || memcmp(now.bytes, image.bytes, now.count) == 0);
    free(now.bytes);
    return same;
}

/* In a child, so that it may end without a close. */
static void make_images(int index, unsigned commits, bool is_closed) {
    unlink(path);
    unlink(journal_path);
    pid_t child = fork();
    FUZZ_CHECK(child >= 0);
    if (child == 0) {
        struct ps_arena *arena;
        int good = ps_arena_open(&arena, path, PS_ARENA_CREATE, NULL) == PS_ARENA_OK;
        for (unsigned i = 0; i < commits && good; i++) {
            good = work_arena_step(arena) && ps_arena_commit(arena) == PS_ARENA_OK;
        }
        if (is_closed) {
            ps_arena_close(arena);
        }
        _exit(good ? 0 : 1);
    }
    int status = 0;
    FUZZ_CHECK(waitpid(child, &status, 0) == child && status == 0);
    files[index] = read_image(path);
    journals[index] = read_image(journal_path);
}

static void remove_files(void) {
    unlink(path);
    unlink(journal_path);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    rmdir(path);
}

/* Makes the sums of the headers right again, as no accident does: what they say is then read. */
static void seal_headers(struct image *image) {
    for (unsigned page = 0; page < 2; page++) {
        if (image->count >= (page + 1) * (size_t)ARENA_PAGE) {
            struct arena_header header;
            memcpy(&header, image->bytes + page * ARENA_PAGE, sizeof header);
            header.sum = ps_arena_sum(&header, offsetof(struct arena_header, sum), 0);
            memcpy(image->bytes + page * ARENA_PAGE, &header, sizeof header);
        }
    }
}

/* What a death before the first commit leaves: a header that counts nothing. */
static void make_unborn(struct image *image) {
    struct arena_header header;
    memcpy(&header, files[2].bytes, sizeof header);
    *image = (struct image){calloc(1, ARENA_PAGE), ARENA_PAGE};
    FUZZ_CHECK(image->bytes != NULL);
    struct arena_header unborn = {
        .version = header.version, .byte_order = header.byte_order, .identity = header.identity};
    memcpy(unborn.magic, header.magic, sizeof unborn.magic);
    memcpy(image->bytes, &unborn, sizeof unborn);
    seal_headers(image);
}

/* A directory of its own, in memory where the system has such a place. */
static void start(void) {
    bool has_memory = access("/dev/shm", W_OK) == 0;
    snprintf(path, sizeof path - 16, "%s/poolshim-fuzz-XXXXXX", has_memory ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(path) != NULL);
    strcat(path, "/arena");
    snprintf(journal_path, sizeof journal_path, "%s-journal", path);
    for (unsigned i = 1; i <= COMMITS; i++) {
        models[i] = models[i - 1];
        work_model_step(&models[i]);
    }
    make_images(0, COMMITS, true);
    make_images(1, COMMITS, false);
    make_images(2, 0, true);
    make_unborn(&files[3]);
    atexit(remove_files);
}

/* A copy with changes: bytes replaced, words set to telling values, the end cut or zeros added. */
static struct image damage(struct image from, struct fuzz_input *input) {
    static const uint64_t words[] = {
        0, 1, 4096, 8192, UINT64_MAX, (uint64_t)1 << 63, UINT64_MAX / 4096 + 1, (uint64_t)1 << 47};
    struct image image = {malloc(FILE_BYTES_MAX), from.count};
    FUZZ_CHECK(image.bytes != NULL);
    memset(image.bytes, 0, FILE_BYTES_MAX);
    if (from.bytes != NULL) {
        memcpy(image.bytes, from.bytes, from.count);
    }
    unsigned edits = fuzz_below(input, EDITS_MAX);
    for (unsigned i = 0; i < edits && !fuzz_is_over(input); i++) {
        uint8_t kind = fuzz_byte(input);
        /* Most damage to the two headers, whose 88 bytes decide. */
        size_t at = (kind & 128) != 0 ? fuzz_number(input, 3) : fuzz_byte(input) % 96;
        at = ((kind & 64) != 0 ? at + ARENA_PAGE : at) % (FILE_BYTES_MAX - 8);
        if ((kind & 3) == 0) {
            image.count = fuzz_number(input, 3) % FILE_BYTES_MAX;
        } else if ((kind & 3) == 1) {
            memcpy(image.bytes + at / 8 * 8, &words[fuzz_below(input, 8)], 8);
        } else {
            image.bytes[at] = (kind & 3) == 2 ? fuzz_byte(input) : image.bytes[at] ^ 1;
        }
    }
    return image;
}

static struct image raw(struct fuzz_input *input) {
    struct image image = {malloc(input->count + 1), input->count};
    FUZZ_CHECK(image.bytes != NULL);
    memcpy(image.bytes, input->bytes, input->count);
    return image;
}

/* Everything was read and its sums were right: a state once committed, which can go on. */
static void check_state(struct ps_arena *arena, unsigned flags) {
    uint64_t commits = work_commits(arena);
    FUZZ_CHECK(commits <= COMMITS && ps_arena_sequence(arena) == commits + 1);
    const char *difference = work_difference(arena, &models[commits]);
    if (difference != NULL) {
        fprintf(stderr, "after %llu commits: %s\n", (unsigned long long)commits, difference);
        abort();
    }
    if ((flags & PS_ARENA_READ) == 0) {
        FUZZ_CHECK(work_arena_step(arena) && ps_arena_commit(arena) == PS_ARENA_OK);
        FUZZ_CHECK(work_arena_step(arena) && ps_arena_rollback(arena) == PS_ARENA_OK);
        FUZZ_CHECK(work_commits(arena) == commits + 1);
    }
}

static void open_and_look(unsigned flags, bool is_sealed, struct image file, struct image journal) {
    struct ps_arena_options options = {.reserve_bytes = (size_t)16 << 20};
    struct ps_arena *arena;
    enum ps_arena_status status = ps_arena_open(&arena, path, flags, &options);
    FUZZ_CHECK(ps_arena_explain(status) != NULL);
    FUZZ_CHECK((arena != NULL) == (status == PS_ARENA_OK));
    if (status == PS_ARENA_OK && !is_sealed && (flags & PS_ARENA_VERIFY) != 0) {
        check_state(arena, flags);
    }
    ps_arena_close(arena);
    if (status != PS_ARENA_OK && !is_sealed) {
        FUZZ_CHECK(is_same(path, file) && is_same(journal_path, journal));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static bool is_started;
    if (!is_started) {
        is_started = true;
        start();
    }
    struct fuzz_input input = {bytes, count};
    uint8_t kind = fuzz_byte(&input);
    uint8_t more = fuzz_byte(&input);
    unsigned flags = (kind & 1 ? PS_ARENA_READ : 0) | (kind & 2 ? PS_ARENA_VERIFY : 0) |
                     (kind & 4 ? PS_ARENA_COMPARE : 0) | (kind & 8 ? PS_ARENA_CREATE : 0);
    bool is_raw = (kind & 48) == 48;
    struct image file = is_raw ? raw(&input) : damage(files[more % IMAGES], &input);
    struct image journal = {NULL, 0};
    if ((more & 64) != 0) {
        journal = damage(journals[(more >> 3) % IMAGES], &input);
    } else if (journals[(more >> 3) % IMAGES].bytes != NULL) {
        journal = journals[(more >> 3) % IMAGES];
    }
    if ((kind & 64) != 0) {
        seal_headers(&file);
    }
    write_image(path, file);
    write_image(journal_path, journal);
    open_and_look(flags, (kind & 64) != 0, file, journal);
    free(file.bytes);
    if ((more & 64) != 0) {
        free(journal.bytes);
    }
    return 0;
}
