# SPDX-License-Identifier: MIT
"""CONTRIBUTING.md says where a change goes: every file, function and option that it names exists.

    scripts/test tests/repo/test_contributing.py
"""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from conftest import ROOT

GUIDE = ROOT / "CONTRIBUTING.md"
TOPS = ("pools", "shim", "tests", "bench", "scripts", "cmake", "docs", "build")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w./<>*{},-]+")
SUFFIXES = (".c", ".h", ".hpp", ".cpp", ".def", ".py", ".md", ".toml", ".txt", ".json")

# What newcomers looked for in a review of the tree, and a word of the row that answers it.
ERRANDS = {
    "a size class": "size classes",
    "a subcommand": "subcommand",
    "a hostile test": "misuse",
    "a workload": "workload",
    "a C++ adapter": "C++ adapter",
    "an option": "option",
    "a hardening check": "mistakes",
    "a statistic": "statistic",
    "a pool family": "new pool",
    "the purge policy": "memory goes back",
    "the page size of the system": "page size",
    "the policy of huge pages": "huge pages",
}

# Policies with one place: a call that makes a decision, and the files that may.
ONE_PLACE = {
    "ps_os_advise_huge": {
        "pools/engine/os/os.h", "pools/engine/os/os_linux.c",
        "pools/engine/page/huge.h", "pools/engine/page/huge.c",
        "pools/engine/harden/guard.c",  # keeps a mapping apart; no policy
    },
}  # fmt: skip


def rows(text: str) -> dict[str, str]:
    """The table of places: a change, and where it goes."""
    part = text.split("## Places of changes")[1].split("\n## ")[0]
    pairs = [line.strip("|").split("|", 1) for line in part.splitlines() if line.startswith("| ")]
    return {change.strip(): place.strip() for change, place in pairs[1:]}


@lru_cache(maxsize=1)
def sources() -> str:
    """All code, for names of functions and types."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    here = "tests/repo/test_contributing.py"
    suffixes = (".c", ".h", ".hpp", ".py", ".def")
    paths = [ROOT / name for name in listed if name != here and name.endswith(suffixes)]
    return "\n".join(path.read_text(errors="replace") for path in paths if path.is_file())


def problem_with(word: str) -> str | None:
    """What is wrong with one word set as code; None: it names nothing, or something that is."""
    if re.fullmatch(r"(ps_|fake_os_|poolshim_)\w+(\(\))?|struct \w+|PS_\w+", word):
        name = word.removesuffix("()").split()[-1]
        return None if re.search(rf"\b{name}\b", sources()) else f"no {word} in the sources"
    for path in PATH.findall(word):
        pattern = re.sub(r"<[^>]*>", "*", path.rstrip(".,"))
        is_path = pattern.split("/")[0] in TOPS and "/" in pattern
        if not is_path and not (pattern.endswith(SUFFIXES) and "/" not in pattern):
            continue
        if pattern.startswith("build/"):
            continue
        if is_path and not glob(pattern) and not glob(str(Path(pattern).parent)):
            return f"no {path}"
        if is_path and "<" not in path and not glob(pattern):
            return f"no {path}"
        if not is_path and not list(ROOT.glob(pattern)) and not found_somewhere(pattern):
            return f"no file is called {path}"
    return None


def glob(pattern: str) -> list[Path]:
    return list(ROOT.glob(pattern.rstrip("/")))


def found_somewhere(name: str) -> bool:
    return any(list((ROOT / top).rglob(name)) for top in TOPS if top != "build")


def words() -> list[str]:
    prose = re.sub(r"```.*?```", "", GUIDE.read_text(), flags=re.DOTALL)
    return sorted(set(CODE.findall(prose)))


@pytest.mark.parametrize("word", words())
def test_what_is_named_exists(word: str) -> None:
    assert problem_with(word) is None


@pytest.mark.parametrize("errand", ERRANDS)
def test_every_errand_has_a_row_with_a_place(errand: str) -> None:
    table = rows(GUIDE.read_text())
    places = [place for change, place in table.items() if ERRANDS[errand] in change]
    assert len(places) == 1
    assert re.search(r"`[\w./<>*]+`|`\w+\(\)`", places[0])


def rules_without_policy(place: str, root: Path) -> list[str]:
    """The sources of a row that do not include the header which the row names first."""
    policy, *rules = re.findall(r"`(pools/[\w/]+\.[ch])`", place)
    return [path for path in rules if f'#include "{policy}"' not in (root / path).read_text()]


def test_every_rule_that_returns_memory_asks_one_policy() -> None:
    table = rows(GUIDE.read_text())
    (place,) = [place for change, place in table.items() if "memory goes back" in change]
    assert place.startswith("`pools/engine/page/retention.h`") and place.count(".c`") >= 7
    assert rules_without_policy(place, ROOT) == []
    planted = place + ", `pools/engine/heap/mode.c`"
    assert rules_without_policy(planted, ROOT) == ["pools/engine/heap/mode.c"]


def users_of(name: str, root: Path) -> set[str]:
    files = (path for top in ("pools", "shim") for path in (root / top).rglob("*.[ch]"))
    return {
        path.relative_to(root).as_posix()
        for path in files
        if re.search(rf"\b{name}\b", path.read_text())
    }


@pytest.mark.parametrize("name", ONE_PLACE)
def test_policy_is_in_one_place(name: str) -> None:
    assert users_of(name, ROOT) == ONE_PLACE[name]


def test_planted_second_place_is_found(tmp_path: Path) -> None:
    for path in ("pools/engine/heap/new.c", "pools/engine/heap/other.c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "pools/engine/heap/new.c").write_text("ps_os_advise_huge(base, 1, true);\n")
    (tmp_path / "pools/engine/heap/other.c").write_text("ps_os_advise_huge_not(base);\n")
    assert users_of("ps_os_advise_huge", tmp_path) == {"pools/engine/heap/new.c"}


@pytest.mark.parametrize(
    "word",
    [
        "pools/engine/page/gone.c", "gone_nowhere.h", "scripts/gone --check", "ps_gone_nowhere()",
        "struct ps_gone_nowhere", "tests/gone/<name>.c", "bench/*.gone",
    ],
)  # fmt: skip
def test_planted_breach_is_found(word: str) -> None:
    assert problem_with(word) is not None


@pytest.mark.parametrize(
    "word",
    [
        "pools/engine/page/purge.c", "fast_path.h", "scripts/dev/fuzz <name> --merge", "-O2 -g",
        "ps_os_page_bytes()", "struct ps_settings", "tests/fuzz/<name>.c", "bench/*.toml",
        "heap: drain remote frees before asking central", "size_bytes", "#if", "NULL",
    ],
)  # fmt: skip
def test_good_words_are_accepted(word: str) -> None:
    assert problem_with(word) is None
