# SPDX-License-Identifier: MIT
"""The faults that scripts/dev/plant plants: each still applies, and what the script says of them.

    scripts/test tests/repo/test_planted.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, load_script
from table import each_row

FAULT = """[[fault]]
name = "{name}"
file = "a.c"
before = "{before}"
after = "{after}"
breaks = "Something."
targets = []
tests = ["tests/unit -k a"]
"""


@pytest.fixture(scope="module")
def plant() -> ModuleType:
    return load_script("plant")


def all_faults_apply(plant: ModuleType) -> None:
    assert plant.complaints() == []


def faults_are_of_all_parts(plant: ModuleType) -> None:
    """As many as a review of the tests needs to be worth its time."""
    files = [fault.file for fault in plant.faults()]
    assert len(files) >= 40
    for part in ("os", "page", "small", "heap", "harden", "profile", "record"):
        assert any(name.startswith(f"pools/engine/{part}/") for name in files), part
    for part in ("shim", "pools/tlsf", "pools/rust", "scripts/native", "scripts/poolshim_cli"):
        assert any(name.startswith(f"{part}/") for name in files), part


@each_row(
    ("before", "after", "why"),
    [
        ("int b;", "long b;", None),
        ("int c;", "long c;", "its text is 0 times in a.c, not once"),
        ("int", "long", "its text is 2 times in a.c, not once"),
        ("int b;", "int b;", "no change"),
    ],
)
def a_fault_that_does_not_apply_is_named(
    plant: ModuleType, tmp_path: Path, before: str, after: str, why: str | None
) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "a.c").write_text("int a;\nint b;\n")
    (tmp_path / "some.toml").write_text(FAULT.format(name="some", before=before, after=after))
    expected = [] if why is None else [f"some: {why}"]
    assert plant.complaints(tmp_path, tmp_path) == expected


def a_program_that_has_left_is_named(plant: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "kept_test.c").touch()
    (tmp_path / "a.c").write_text("int b;\n")
    text = FAULT.format(name="some", before="int b;", after="long b;")
    for program, why in (("kept", []), ("gone", ["some: no program tests/unit/gone_test"])):
        (tmp_path / "some.toml").write_text(f'{text}programs = ["unit/{program}_test"]\n')
        assert plant.complaints(tmp_path, tmp_path) == why


@each_row(
    ("program", "targets", "expression"),
    [
        ("unit/shim/text_test", ["unit-shim-text_test"], "[shim/text_test] or -shim/text_test]"),
        ("pools/ring_test.c", ["pools-ring_test-c"], "[ring_test.c] or -ring_test.c]"),
        ("scenarios/free_keeps_errno", ["poolshim", "scenario-free_keeps_errno"],
         "[free_keeps_errno] or -free_keeps_errno]"),
    ],
)  # fmt: skip
def a_program_has_its_target_and_its_test(
    plant: ModuleType, program: str, targets: list[str], expression: str
) -> None:
    assert plant.targets_of(program) == targets
    assert plant.test_of(program) == f"tests/{program.split('/')[0]} -k '{expression}'"


def two_faults_of_one_name_are_named(plant: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "a.c").write_text("int b;\n")
    fault = FAULT.format(name="some", before="int b;", after="long b;")
    (tmp_path / "some.toml").write_text(fault * 2)
    assert plant.complaints(tmp_path, tmp_path) == ["some: twice"]


def the_table_counts_what_was_found(plant: ModuleType) -> None:
    rows = [
        plant.Result("one", "abc", "found", "tests/unit/test_unit.py::test_unit[release-a]", 2.0),
        plant.Result("two", "abc", "found (hang)", "tests/unit -k b", 60.0),
        plant.Result("three", "abc", "missed", "", 3.5),
    ]
    lines = plant.table(rows).splitlines()
    assert lines[0] == (
        "one       2.0 s  found: tests/unit/test_unit.py::test_unit[release-a]"
    )
    assert lines[2:] == ["three     3.5 s  missed", "2 of 3 faults are found"]


def test_one_of_the_named_tests_is_enough(
    plant: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = {"a": ("no test", "a"), "b": ("missed", ""), "c": ("found", "c::test")}
    monkeypatch.setattr(plant, "pytest_run", lambda fault, words: outcomes[words[0]])

    def outcome_of(*tests: str) -> str:
        fault = plant.Fault("some", "a.c", "b", "c", "Something.", tests=tests)
        return str(plant.named_tests(fault)[0])

    assert outcome_of("a", "b", "c") == "found"
    assert outcome_of("a", "b") == outcome_of("b", "a") == "missed"
    assert outcome_of("a") == "no test"


@each_row(
    ("line", "by", "reason"),
    [
        ("FAILED tests/a.py::test_a[x-b c] - AssertionError: exit -6", "tests/a.py::test_a[x-b c]",
         "AssertionError: exit -6"),
        ("FAILED tests/a.py::test_a", "tests/a.py::test_a", None),
        ("ERROR tests/a.py - SyntaxError", "tests/a.py", "SyntaxError"),
    ],
)  # fmt: skip
def the_first_failure_is_read(
    plant: ModuleType, line: str, by: str, reason: str | None
) -> None:
    match = plant.FAILED.search(f"1 passed\n{line}\n")
    assert match is not None and match.groups() == (by, reason)


def only_known_names_can_be_chosen(plant: ModuleType) -> None:
    known = plant.faults(ROOT / "tests" / "planted")
    some = plant.chosen(["tlsf-*"], known)
    assert some and all(fault.name.startswith("tlsf-") for fault in some)
    assert plant.chosen([], known) == known
    with pytest.raises(plant.Failed, match="no fault is called none-*"):
        plant.chosen(["none-*"], known)


@each_row("check", [all_faults_apply, faults_are_of_all_parts, only_known_names_can_be_chosen])
def test_faults(plant: ModuleType, check: Callable[[ModuleType], None]) -> None:
    check(plant)


@each_row(
    "check",
    [
        a_fault_that_does_not_apply_is_named,
        a_program_that_has_left_is_named,
        two_faults_of_one_name_are_named,
    ],
)
def test_wrong_faults_are_named(
    plant: ModuleType, tmp_path: Path, check: Callable[..., None]
) -> None:
    check(plant=plant, tmp_path=tmp_path)


@each_row(
    "check",
    [
        a_program_has_its_target_and_its_test,
        the_table_counts_what_was_found,
        the_first_failure_is_read,
    ],
)
def test_reports(plant: ModuleType, check: Callable[..., None]) -> None:
    check(plant=plant)
