/* SPDX-License-Identifier: MIT */
/*
 * What `poolshim run` is about to start: which file, and whether the loader will put a library into
 * it. Reads the headers of the file, and of its interpreter if it is a script; sees what the kernel
 * and the loader use, no more: `poolshim doctor` checks further.
 */
#include "scripts/native/run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    SCRIPT_DEPTH = 5,
    SCRIPT_LINE_BYTES = 256,
    SEGMENT_LIMIT = 64,
    NOTE_BYTES = 4096
}; /* the first two: Linux's */

/* The same size for every class; Elf64_Ehdr begins with it. */
enum { IDENT_BYTES = 20, TYPE_OFFSET = 16, MACHINE_OFFSET = 18 };
enum { LOONGARCH = 258 }; /* EM_LOONGARCH, which older headers lack */

/* Do the notes of a segment name the library? */
static bool has_note(int fd, const Elf64_Phdr *segment) {
    static const char owner[] = "poolshim";
    char notes[NOTE_BYTES];
    ssize_t got = pread(fd, notes, sizeof notes, (off_t)segment->p_offset);
    size_t end = got < 0 ? 0 : (size_t)got;
    end = segment->p_filesz < end ? (size_t)segment->p_filesz : end;
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) + sizeof owner <= end;) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        if (note.n_namesz == sizeof owner && memcmp(notes + at, owner, sizeof owner) == 0) {
            return true;
        }
        at +=
            (((size_t)note.n_namesz + 3) & ~(size_t)3) + (((size_t)note.n_descsz + 3) & ~(size_t)3);
    }
    return false;
}

static void read_segments(int fd, struct elf_facts *facts) {
    Elf64_Ehdr header;
    if (pread(fd, &header, sizeof header, 0) != sizeof header ||
        header.e_phentsize != sizeof(Elf64_Phdr)) {
        return;
    }
    for (unsigned i = 0; i < header.e_phnum && i < SEGMENT_LIMIT; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(header.e_phoff + i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != sizeof segment) {
            return;
        }
        if (segment.p_type == PT_INTERP && segment.p_filesz < sizeof facts->interpreter) {
            ssize_t got = pread(fd, facts->interpreter, segment.p_filesz, (off_t)segment.p_offset);
            facts->interpreter[got < 0 ? 0 : got] = '\0';
        }
        facts->has_poolshim |= segment.p_type == PT_NOTE && has_note(fd, &segment);
    }
}

bool run_target_read_elf(const char *path, struct elf_facts *facts) {
    *facts = (struct elf_facts){.is_elf = false};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    unsigned char start[IDENT_BYTES];
    ssize_t got = pread(fd, start, sizeof start, 0);
    if (got == sizeof start && memcmp(start, ELFMAG, SELFMAG) == 0) {
        facts->is_elf = true;
        facts->bits = start[EI_CLASS];
        facts->order = start[EI_DATA];
        memcpy(&facts->type, start + TYPE_OFFSET, sizeof facts->type);
        memcpy(&facts->machine, start + MACHINE_OFFSET, sizeof facts->machine);
        if (facts->bits == ELFCLASS64) {
            read_segments(fd, facts);
        }
    }
    int error = errno;
    close(fd);
    errno = error;
    return got >= 0;
}

static bool is_program(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) {
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        errno = EACCES;
        return false;
    }
    return access(path, X_OK) == 0;
}

const char *run_target_find(const char *name) {
    int error = ENOENT;
    if (strchr(name, '/') != NULL) {
        if (is_program(name)) {
            return name;
        }
        error = errno;
    } else {
        const char *path = getenv("PATH");
        path = path == NULL ? "/bin:/usr/bin" : path; /* execvp's own default */
        while (name[0] != '\0') {
            size_t length = strcspn(path, ":");
            char *candidate =
                length == 0 ? run_text("./%s", name) : run_text("%.*s/%s", (int)length, path, name);
            if (is_program(candidate)) {
                return candidate;
            }
            error = errno == EACCES ? EACCES : error;
            free(candidate);
            if (path[length] == '\0') {
                break;
            }
            path += length + 1;
        }
    }
    bool is_absent = error == ENOENT || error == ENOTDIR;
    run_die(is_absent ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE, "%s: %s", name,
            is_absent && strchr(name, '/') == NULL ? "no such command" : strerror(error));
}

/* The interpreter that the first line of a script names; false: it names none. */
static bool read_script(const char *path, char *interpreter) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    char line[SCRIPT_LINE_BYTES] = "";
    ssize_t got = read(fd, line, sizeof line - 1);
    close(fd);
    if (got < 2 || line[0] != '#' || line[1] != '!') {
        return false;
    }
    const char *word = line + 2 + strspn(line + 2, " \t");
    size_t length = strcspn(word, " \t\n");
    memcpy(interpreter, word, length);
    interpreter[length] = '\0';
    return length > 0;
}

static const char *machine_name(const struct elf_facts *facts) {
    static const struct {
        uint16_t machine;
        const char *name;
    } known[] = {{EM_386, "x86"},         {EM_X86_64, "x86-64"},   {EM_ARM, "32-bit ARM"},
                 {EM_AARCH64, "AArch64"}, {EM_RISCV, "RISC-V"},    {EM_PPC64, "POWER"},
                 {EM_S390, "S/390"},      {LOONGARCH, "LoongArch"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].machine == facts->machine) {
            return known[i].name;
        }
    }
    return run_text("machine %u", facts->machine);
}

/* Will the program gain privileges by its start, so that the loader ignores the preload? */
static const char *privilege_of(const char *path) {
    struct stat status;
    struct statvfs volume;
    if (stat(path, &status) != 0 ||
        (statvfs(path, &volume) == 0 && (volume.f_flag & ST_NOSUID) != 0)) {
        return NULL;
    }
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) {
        return "set-user-ID";
    }
    if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
        status.st_gid != getgid()) {
        return "set-group-ID";
    }
    bool has_capabilities = getxattr(path, "security.capability", NULL, 0) > 0;
    return has_capabilities && getuid() != 0 ? "a program with file capabilities" : NULL;
}

/* Does the file's own name begin like that? */
static bool is_named(const char *path, const char *prefix) {
    const char *slash = strrchr(path, '/');
    return strncmp(slash == NULL ? path : slash + 1, prefix, strlen(prefix)) == 0;
}

/* One of two texts. */
static const char *libc_of(const struct elf_facts *program) {
    static const char *const names[] = {"glibc", "musl"};
    return names[is_named(program->interpreter, "ld-musl")];
}

/* Of this program, and so of the libraries that it finds. */
static const char *own_libc(void) {
    struct elf_facts own;
    (void)run_target_read_elf("/proc/self/exe", &own);
    return libc_of(&own);
}

/* The same for a program that poolshim is linked into, which another allocator does not replace. */
static const char *refusal_of_linked(const char *shown, const char *library) {
    return is_named(library, "libpoolshim")
               ? NULL
               : run_text("%s has poolshim linked into it, which no preload replaces", shown);
}

/* NULL, or why this very file, no script, would run without the library. */
static const char *refusal_of_program(const char *shown, const char *path,
                                      const struct elf_facts *program,
                                      const struct elf_facts *library) {
    if (program->bits != library->bits || program->order != library->order ||
        program->machine != library->machine) {
        return run_text("%s is a program for %s (%s), the library is for %s", shown,
                        machine_name(program), program->bits == ELFCLASS32 ? "32 bits" : "64 bits",
                        machine_name(library));
    }
    bool is_loader = is_named(path, "ld-linux") || is_named(path, "ld64.so") ||
                     is_named(path, "ld.so") || is_named(path, "ld-2.");
    if (program->interpreter[0] == '\0' && !is_loader) {
        return run_text("%s is statically linked, nothing can be preloaded into it", shown);
    }
    if (libc_of(program) != own_libc()) {
        return run_text("%s is linked to %s, the library to %s", shown, libc_of(program),
                        own_libc());
    }
    const char *privilege = privilege_of(path);
    if (privilege != NULL) {
        return run_text("%s is %s, and the loader ignores LD_PRELOAD there", shown, privilege);
    }
    return NULL;
}

const char *run_target_refusal(const char *path, const char *library) {
    struct elf_facts program;
    struct elf_facts preloaded;
    char interpreter[SCRIPT_LINE_BYTES];
    const char *shown = path;
    if (!run_target_read_elf(library, &preloaded) || !preloaded.is_elf ||
        preloaded.type != ET_DYN) {
        return run_text("%s is no shared library", library);
    }
    for (int depth = 0; depth < SCRIPT_DEPTH; depth++) {
        if (!run_target_read_elf(path, &program)) {
            return NULL; /* unreadable but perhaps executable: the loader will see */
        }
        if (program.has_poolshim) {
            return refusal_of_linked(shown, library);
        }
        if (program.is_elf) {
            return refusal_of_program(shown, path, &program, &preloaded);
        }
        /* Without a first line that names one, execvp gives the file to the shell. */
        const char *next = read_script(path, interpreter) ? interpreter : "/bin/sh";
        path = run_text("%s", next);
        shown = run_text("%s, which runs %s,", path, shown);
    }
    return NULL;
}
