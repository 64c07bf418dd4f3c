# SPDX-License-Identifier: MIT
"""One program file: will the loader put a library into it, and will calls of malloc go there?"""

from __future__ import annotations

import os
import re
from pathlib import Path

from .. import elf
from .findings import FATAL, FINE, NOTE, WARNING, Diagnosis

C_NAMES = ("malloc", "free", "calloc", "realloc")
NEW_NAMES = ("_Znwm", "_Znam", "_ZdlPv", "_ZdaPv")
# Calls past malloc. poolshim has most of these names, and takes over those calls.
OWN_INTERFACES = {
    "mimalloc": re.compile(r"mi_(heap_|theap_|subproc_|malloc|free|calloc|zalloc|realloc|new)"),
    "tcmalloc": re.compile(r"tc_(malloc|free|new|delete)"),
    "jemalloc": re.compile(r"(mallocx|rallocx|sdallocx|dallocx|je_malloc|je_free)$"),
    "TBB": re.compile(r"scalable_(malloc|free)$"),
}
SHOWN = 4  # of the functions, at most
# By these a program queries one allocator's figures, or steers it; and, of each, the library
# that answers. malloc_stats and mallinfo are in libc too, and poolshim answers them.
CONTROLS = {
    "jemalloc": re.compile(r"(_rjem_|_?je_)?mallctl(nametomib|bymib)?$|je_malloc_stats_print$"),
    "tcmalloc": re.compile(r"_ZN15MallocExtension8instanceEv|MallocExtension_|MallocHook_Add"
                           r"|_ZN\w*8tcmalloc15MallocExtension|_Z\w*TCMalloc_SystemRelease"),
    "mimalloc": re.compile(r"mi_(stats|process_info|option|collect|heap_visit|heap_get)\w*$"),
}
# Texts that a stripped program still has.
TRACES = {b"<jemalloc>": "jemalloc", b"mimalloc: ": "mimalloc", b"TCMALLOC_": "tcmalloc",
          b"rpmalloc": "rpmalloc", b"snmalloc": "snmalloc"}  # fmt: skip
# Opens extensions with RTLD_DEEPBIND, which no symbol shows; 8.5 and later do not.
PHP = re.compile(rb"X-Powered-By: PHP/(\d+)\.(\d+)")
PHP_WITHOUT_DEEPBIND = (8, 5)
LOADER = re.compile(r"ld-linux|ld-musl|ld64\.so|ld\.so|ld-2\.")
MUSL = re.compile(r"libc\.so$|libc\.musl-")  # its own name, and Alpine's


def kind_of(file: elf.Elf) -> tuple[int, bool, int]:
    """What must be the same in all files of a process."""
    return file.bits, file.is_little_endian, file.machine


def libc_of(file: elf.Elf) -> str:
    """The C library of a program, by its loader, or of a library, by what it needs."""
    loader = Path(file.interpreter).name.startswith("ld-musl")
    return "musl" if loader or any(MUSL.match(name) for name in file.needed) else "glibc"


def note_linked(diagnosis: Diagnosis, program: elf.Elf) -> bool:
    """Whether poolshim is a part of the program, which a preload can neither add nor replace."""
    if program.bits == 64 and program.has_poolshim:
        diagnosis.add("linked", FINE, f"{program.path} has poolshim linked into it, and needs no "
                      "preload")  # fmt: skip
        return True
    return False


def check_kind(diagnosis: Diagnosis, program: elf.Elf, library: elf.Elf) -> bool:
    """Processor, static linking, libc; False: further checks are useless."""
    where = program.path
    if kind_of(program) != kind_of(library):
        diagnosis.add(
            "wrong-processor", FATAL,
            f"{where} is a program for {program.machine_name} ({program.bits} bits), the library "
            f"is for {library.machine_name} ({library.bits} bits)",
            "build poolshim for that processor",
        )  # fmt: skip
        return False
    if not program.interpreter and LOADER.match(program.path.name):
        diagnosis.add("loader", NOTE, f"{where} is a loader: give doctor its program")
        return False
    if not program.interpreter:
        advice = "link it with libpoolshim.a, or dynamically"
        if program.has_section(".gopclntab"):
            advice = "Go manages its own memory, with or without malloc"
        diagnosis.add(
            "static", FATAL,
            f"{where} is statically linked: no loader runs, nothing can be preloaded", advice,
        )  # fmt: skip
        return False
    if libc_of(program) != libc_of(library):
        diagnosis.add(
            "musl", FATAL,
            f"{where} is linked to {libc_of(program)}, the library to {libc_of(library)}",
            f"build poolshim for {libc_of(program)}",
        )  # fmt: skip
        return False
    if not os.path.exists(program.interpreter):
        diagnosis.add("no-loader", FATAL, f"{where} needs the loader {program.interpreter}, "
                      "which is not here: the program cannot start")  # fmt: skip
        return False
    if program.has_section(".gopclntab"):
        diagnosis.add("go", WARNING, "it is a Go program: only its C parts call malloc")
    return True


def privileges(path: Path) -> tuple[str, bool]:
    """The privileges that starting a program file gives, or "", and if this account gets them."""
    status = path.stat()
    if status.st_mode & 0o4000:
        return "set-user-ID", status.st_uid != os.getuid()
    if status.st_mode & 0o2010 == 0o2010:
        return "set-group-ID", status.st_gid != os.getgid()
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return "", False
    return "a program with file capabilities", os.getuid() != 0


def check_privileges(diagnosis: Diagnosis, program: elf.Elf) -> None:
    """AT_SECURE: the loader drops paths from LD_PRELOAD, and the library ignores its variables."""
    if os.statvfs(program.path).f_flag & os.ST_NOSUID:
        return
    kind, is_gained = privileges(program.path)
    if is_gained:
        diagnosis.add(
            "privileged", FATAL,
            f"{program.path} is {kind}: it gains privileges, and the loader ignores LD_PRELOAD",
            "run it from an account that has the rights already, or link it with libpoolshim.a",
        )  # fmt: skip
    elif kind:
        diagnosis.add(
            "privileged-elsewhere", NOTE,
            f"{program.path} is {kind}: where another account starts it, the loader ignores "
            "LD_PRELOAD",
        )  # fmt: skip


def hidden_definitions(program: elf.Elf) -> list[str]:
    """malloc and free inside, invisible to the loader: calls to them are bound for good."""
    private = program.private_symbols
    names = ("malloc", "free")
    return [name for name in names if private.get(name) and name not in program.symbols]


def check_own_allocator(diagnosis: Diagnosis, program: elf.Elf) -> None:
    """Definitions of malloc or operator new in the executable itself."""
    exported = [name for name in C_NAMES if program.defines(name)]
    hidden = hidden_definitions(program)
    if "malloc" in exported:
        diagnosis.add(
            "own-malloc", FATAL,
            f"{program.path} defines {', '.join(exported)}, and the program's own come first",
            "build it without its allocator (often an option such as MALLOC=libc)",
        )  # fmt: skip
    elif hidden:
        diagnosis.add(
            "hidden-malloc", FATAL,
            f"{program.path} has {' and '.join(hidden)} of its own inside, which nothing replaces",
            "build it without its allocator (often an option such as MALLOC=libc)",
        )  # fmt: skip
    elif "free" in exported:
        diagnosis.add("own-free", WARNING, f"{program.path} defines free, but not malloc")
    found = [name for name in NEW_NAMES if program.defines(name)]
    if found:
        whose = "malloc" if program.wants("malloc") else "an allocator of its own"
        diagnosis.add(
            "own-operator-new", NOTE if whose == "malloc" else WARNING,
            f"{program.path} defines its own operator new or delete ({len(found)} of 4 forms), "
            f"which gets memory from {whose}",
        )  # fmt: skip
    if not exported and not hidden and not program.wants("malloc"):
        check_traces(diagnosis, program)


def check_traces(diagnosis: Diagnosis, program: elf.Elf) -> None:
    """It calls no malloc, which may be fine, and may be an allocator inside a stripped file."""
    for text, name in TRACES.items():
        if program.search(re.compile(re.escape(text))) is not None:
            diagnosis.add(
                "bundled", FATAL,
                f"{program.path} calls no malloc, and has texts of {name} inside: it was built in",
            )  # fmt: skip
            return


def check_own_interfaces(diagnosis: Diagnosis, program: elf.Elf, ours: elf.Elf) -> None:
    """Calls past malloc: their blocks may reach poolshim's free, and the other way round. Names
    that our library has, too, are none."""
    wanted = [one for one, is_own in program.symbols.items()
              if not is_own and not ours.defines(one)]  # fmt: skip
    for name, pattern in OWN_INTERFACES.items():
        called = sorted(one for one in wanted if pattern.match(one))[:SHOWN]
        if called:
            diagnosis.add(
                "own-interface", WARNING,
                f"{program.path} calls {', '.join(called)} of {name} directly: those blocks stay "
                f"{name}'s, and a block freed by the other one stops the program",
                f"build it without {name}",
            )  # fmt: skip
    if program.wants("__asan_init") or any("libasan" in name for name in program.needed):
        diagnosis.add(
            "sanitizer", FATAL,
            f"{program.path} is built with AddressSanitizer, which must be loaded first and stops",
            "run the ordinary build",
        )  # fmt: skip


def check_plugins(diagnosis: Diagnosis, program: elf.Elf) -> None:
    """Plugins that the program binds to libc's free, which are given blocks of our malloc."""
    found = program.search(PHP) if program.defines("zend_load_extension") else None
    if found is not None and (int(found[1]), int(found[2])) < PHP_WITHOUT_DEEPBIND:
        diagnosis.add(
            "deepbind", WARNING,
            f"{program.path} is PHP {int(found[1])}.{int(found[2])}, which opens extensions with "
            "RTLD_DEEPBIND: with any of them it ends under every preloaded malloc",
            "run PHP 8.5 or later, or without extensions from files (php -n)",
        )  # fmt: skip


def check_controls(
    diagnosis: Diagnosis, program: elf.Elf, libraries: list[elf.Elf], ours: elf.Elf
) -> None:
    """Queries of an allocator that no longer serves: their results are of an empty heap. Those that
    our library answers itself are none."""
    for asking in (program, *libraries):
        for name, pattern in CONTROLS.items():
            asked = sorted(s for s, is_own in asking.symbols.items()
                           if not is_own and pattern.match(s) and not ours.defines(s))  # fmt: skip
            answered = [s for s in asked if any(library.defines(s) for library in libraries)]
            if answered and not any(asking.defines(s) for s in ("malloc", *asked)):
                diagnosis.add(
                    "own-figures", WARNING,
                    f"{asking.path} queries {name} about its memory ({answered[0]}), which does "
                    "not serve it any more: the figures that it reports of its memory are wrong",
                    "go by its RSS, or by POOLSHIM_STATS",
                )  # fmt: skip
