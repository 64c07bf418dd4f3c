# SPDX-License-Identifier: MIT
"""What `poolshim doctor --run` predicted and what its run showed become one verdict.

    scripts/test tests/cli/test_cli_doctor_run.py
"""

from __future__ import annotations

import sys

from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.doctor import family  # noqa: E402
from poolshim_cli.doctor.findings import Diagnosis  # noqa: E402


@each_row("code", sorted(family.REFUTED))
def test_a_run_overrules_what_was_predicted(code: str) -> None:
    diagnosis = Diagnosis(("x",), "libpoolshim.so", "/bin/x")
    diagnosis.add(code, "fatal", "/bin/x lacks something", "do something")
    family.judge(diagnosis, [family.Program(7, True, "mapped", "/bin/x")], True)
    assert diagnosis.takes_effect
    assert [(one.code, one.level) for one in diagnosis.findings] == [
        (code, "note"), ("ran-mapped", "fine")
    ]  # fmt: skip
    assert diagnosis.findings[0].message == "the run does not confirm that /bin/x lacks something"


@each_row("code", [*sorted(family.OWN_CALLS), "privileged"])
def test_a_mapped_library_does_not_overrule_who_serves(code: str) -> None:
    diagnosis = Diagnosis(("x",), "libpoolshim.so", "/bin/x")
    diagnosis.add(code, "fatal", "a reason")
    family.judge(diagnosis, [family.Program(7, True, "mapped", "/bin/x")], True)
    assert not diagnosis.takes_effect
    assert [one.level for one in diagnosis.findings] == ["fatal", "note"]
    assert "gave it memory" not in diagnosis.findings[1].message


@each_row(("kept", "takes_effect"), [(True, True), (False, False)])
def test_a_starter_that_keeps_the_variable(kept: bool, takes_effect: bool) -> None:
    diagnosis = Diagnosis(("sudo", "x"), "libpoolshim.so", "/bin/sudo")
    diagnosis.add("cleared", "fatal", "sudo starts the program without LD_PRELOAD")
    child = family.Program(8, kept, "mapped" if kept else "unmapped", "/bin/x")
    family.judge(diagnosis, [family.Program(7, True, "mapped", "/bin/sudo"), child], True)
    assert diagnosis.takes_effect == takes_effect


def test_a_run_without_the_library_overrules_what_the_loader_listed() -> None:
    diagnosis = Diagnosis(("x",), "libpoolshim.so", "/bin/x")
    diagnosis.add("first", "fine", "libpoolshim.so is loaded, and its malloc comes first")
    family.judge(diagnosis, [family.Program(7, True, "unmapped", "/bin/x")], None)
    assert [one.code for one in diagnosis.findings] == ["ran-unmapped"]
