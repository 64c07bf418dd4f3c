/* SPDX-License-Identifier: MIT */
/*
 * Which library `poolshim run --allocator` preloads. The names and their files are rows of
 * poolshim_cli/allocators.toml, turned into allocators.inc by the build; they are looked up as
 * poolshim_cli/allocators.py does: in the loader's cache, then in its usual folders.
 */
#include "scripts/native/run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_LIMIT = 8 };

struct allocator {
    const char *name;
    const char *package;
    const char *files[FILE_LIMIT]; /* none: nothing is preloaded */
};

static const struct allocator allocators[] = {
#include "scripts/allocators.inc"
    {.name = "system"},
};

enum { ALLOCATOR_COUNT = sizeof allocators / sizeof allocators[0] };

/* Where libpoolshim.so is, seen from this program's folder: built, installed. */
static const char *const own_places[] = {"../libpoolshim.so", "../../lib/poolshim/libpoolshim.so"};

const char *run_library_names(void) {
    const char *names = "";
    for (size_t i = 0; i < ALLOCATOR_COUNT; i++) {
        names = run_text("%s%s%s", names, i == 0 ? "" : ", ", allocators[i].name);
    }
    return names;
}

/* May a program of this machine load the file? */
static bool is_loadable(const char *path) {
    struct elf_facts library;
    struct elf_facts own;
    return run_target_read_elf(path, &library) && library.is_elf &&
           run_target_read_elf("/proc/self/exe", &own) && library.bits == own.bits &&
           library.machine == own.machine && library.type == ET_DYN;
}

/* Does one of these dynamic symbols say that malloc is defined here? */
static bool names_malloc(const char *file, size_t bytes, const Elf64_Shdr *symbols,
                         const Elf64_Shdr *strings) {
    if (symbols->sh_offset > bytes || symbols->sh_size > bytes - symbols->sh_offset ||
        strings->sh_offset > bytes || strings->sh_size > bytes - strings->sh_offset) {
        return false;
    }
    static const char wanted[] = "malloc";
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, file + symbols->sh_offset + at, sizeof symbol);
        if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < strings->sh_size &&
            strings->sh_size - symbol.st_name >= sizeof wanted &&
            memcmp(file + strings->sh_offset + symbol.st_name, wanted, sizeof wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* Does the library define malloc? Also true where that cannot be read: the loader decides then. */
static bool may_have_malloc(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || (size_t)status.st_size < sizeof(Elf64_Ehdr)) {
        return true;
    }
    size_t bytes = (size_t)status.st_size;
    const char *file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED) {
        return true;
    }
    Elf64_Ehdr header;
    memcpy(&header, file, sizeof header);
    size_t table_bytes = (size_t)header.e_shnum * sizeof(Elf64_Shdr);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr) ||
        header.e_shoff > bytes || table_bytes > bytes - header.e_shoff) {
        return true;
    }
    bool is_known = false;
    for (size_t i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr symbols;
        memcpy(&symbols, file + header.e_shoff + i * sizeof symbols, sizeof symbols);
        if (symbols.sh_type == SHT_DYNSYM && symbols.sh_link < header.e_shnum) {
            Elf64_Shdr strings;
            memcpy(&strings, file + header.e_shoff + symbols.sh_link * sizeof strings,
                   sizeof strings);
            is_known = true;
            if (names_malloc(file, bytes, &symbols, &strings)) {
                return true;
            }
        }
    }
    return !is_known;
}

/* ---- the loader's cache: glibc's sysdeps/generic/dl-cache.h describes it ---- */

struct cache_entry {
    int32_t flags;
    uint32_t name; /* offsets from the cache's start */
    uint32_t path;
    uint32_t os_version;
    uint64_t hardware;
};

struct cache_header {
    char magic[20]; /* "glibc-ld.so.cache1.1" */
    uint32_t entry_count;
    uint32_t strings_bytes;
    uint32_t others[5];
    struct cache_entry entries[];
};

static const char *find_in_cache(const char *file) {
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || (size_t)status.st_size < sizeof(struct cache_header)) {
        return NULL;
    }
    size_t bytes = (size_t)status.st_size;
    const struct cache_header *cache = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (cache == MAP_FAILED || memcmp(cache->magic, "glibc-ld.so.cache1.1", 20) != 0) {
        return NULL;
    }
    const char *text = (const char *)cache;
    size_t limit = (bytes - sizeof *cache) / sizeof cache->entries[0];
    for (size_t i = 0; i < cache->entry_count && i < limit; i++) {
        const struct cache_entry *entry = &cache->entries[i];
        if (entry->name < bytes && entry->path < bytes && strcmp(text + entry->name, file) == 0 &&
            is_loadable(text + entry->path)) {
            return text + entry->path;
        }
    }
    return NULL;
}

static const char *find_in_folders(const char *file, const char *folders) {
    while (folders != NULL && *folders != '\0') {
        size_t length = strcspn(folders, ":");
        char *candidate = run_text("%.*s/%s", (int)length, folders, file);
        if (length > 0 && is_loadable(candidate)) {
            return candidate;
        }
        free(candidate);
        folders += length + (folders[length] == ':');
    }
    return NULL;
}

/* ---- the result ---- */

static const char *absolute(const char *path) {
    char *resolved = realpath(path, NULL);
    if (resolved == NULL) {
        run_die(EXIT_OWN_FAILURE, "%s: %s", path, strerror(errno));
    }
    return resolved;
}

static const char *find_own(void) {
    char self[PATH_MAX] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        const char *started = (const char *)getauxval(AT_EXECFN);
        snprintf(self, sizeof self, "%s", started == NULL ? "" : started);
    }
    char *slash = strrchr(self, '/');
    const char *folder = slash == NULL ? "." : self;
    if (slash != NULL) {
        *slash = '\0';
    }
    for (size_t i = 0; i < sizeof own_places / sizeof own_places[0]; i++) {
        char *candidate = run_text("%s/%s", folder, own_places[i]);
        if (access(candidate, R_OK) == 0) {
            return absolute(candidate);
        }
        free(candidate);
    }
    run_die(EXIT_OWN_FAILURE, "no libpoolshim.so at %s/%s: build or install it", folder,
            own_places[0]);
}

/* A library by its name alone, or NULL. */
static const char *find_by_name(const char *file) {
    const char *found = find_in_cache(file);
    if (found == NULL) {
        found = find_in_folders(file, getenv("LD_LIBRARY_PATH"));
    }
    return found != NULL ? found : find_in_folders(file, PS_RUN_LIBRARY_FOLDERS);
}

static const char *find_allocator(const struct allocator *allocator) {
    const char *looked_for = "";
    for (size_t i = 0; i < FILE_LIMIT && allocator->files[i] != NULL; i++) {
        const char *file = allocator->files[i];
        const char *found = find_by_name(file);
        if (found != NULL) {
            return absolute(found);
        }
        looked_for = run_text("%s%s%s", looked_for, i == 0 ? "" : ", ", file);
    }
    run_die(EXIT_OWN_FAILURE, "--allocator %s: not found: %s%s%s", allocator->name, looked_for,
            allocator->package == NULL ? "" : "; Debian package ",
            allocator->package == NULL ? "" : allocator->package);
}

const char *run_library_find(const char *name) {
    if (strchr(name, '/') != NULL) {
        const char *path = absolute(name);
        if (!is_loadable(path)) {
            run_die(EXIT_OWN_FAILURE, "--allocator %s: no shared library for this machine", name);
        }
        if (!may_have_malloc(path)) {
            run_die(EXIT_OWN_FAILURE, "--allocator %s: defines no malloc: it is no allocator",
                    name);
        }
        return path;
    }
    if (strcmp(name, "poolshim") == 0) {
        return find_own();
    }
    for (size_t i = 0; i < ALLOCATOR_COUNT; i++) {
        if (strcmp(allocators[i].name, name) == 0) {
            return allocators[i].files[0] == NULL ? NULL : find_allocator(&allocators[i]);
        }
    }
    run_die(EXIT_OWN_FAILURE, "--allocator: no %s here (known: %s; or a path with a slash)", name,
            run_library_names());
}

/* ---- entries of LD_PRELOAD ---- */

const char *run_library_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

bool run_library_is_same(const char *entry, const char *library) {
    char *resolved = strchr(entry, '/') == NULL ? NULL : realpath(entry, NULL);
    return resolved != NULL && strcmp(resolved, library) == 0;
}

bool run_library_is_allocator(const char *entry) {
    if (strchr(entry, '$') != NULL) {
        return true; /* $LIB, $ORIGIN: the loader's to replace */
    }
    const char *path = strchr(entry, '/') != NULL ? entry : find_by_name(entry);
    /* The loader complains about an absent file and goes on without it. */
    return path != NULL && access(path, R_OK) == 0 && may_have_malloc(path);
}
