# SPDX-License-Identifier: MIT
"""The lock-free parts, in every order and with every value that C11 allows, at small bounds.

    scripts/test tests/models/test_models.py       (scripts/dev/models: larger bounds, and traces)
"""

from __future__ import annotations

import re
import shutil

import model_runs
import pytest
from model_runs import Model
from table import each_row

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="models are built with gcc")

MODELS = {model.name: model for model in model_runs.models()}

# What C11 lets these programs come to: see tests/models/litmus.c.
LITMUS = {
    "store_buffers": {0, 1, 2, 3},
    "store_buffers_seq_cst": {1, 2, 3},
    "store_buffers_in_time": {1, 2, 3},
    "store_buffers_barrier": {1, 2, 3},
    "store_buffers_barrier_first": {0, 1, 2, 3},
    "two_readers_barrier": set(range(16)) - {0b1010},
    "message_relaxed": {0, 1, 2, 3},
    "message": {0, 1, 3},
    "fences": {0, 1, 3},
    "fence_of_stores": {0, 1, 2, 3},
    "fence_of_loads": {0, 1, 2, 3},
    "fences_of_plain": {0, 2},
    "coherence": {0, 1, 3},
    "two_readers": set(range(16)),
    "two_readers_seq_cst": set(range(16)) - {0b1010},
    "release_sequence": {0, 2},
    "load_first": {0, 2},
    "counter": {3},
}
# Executions differ by how far threads are at a barrier, also those that have nothing left to show.
COUNTED_APART = {"two_readers_barrier"}
SLOW = {"background"}
WRONG = {
    "race": "data race",
    "race_behind_flag": "data race",
    "race_behind_fence": "data race",
    "race_behind_barrier": "data race",
    "race_behind_time": "data race",
    "sleeps_for_ever": "deadlock",
}


def explored(model: Model, *arguments: str) -> dict[str, tuple[int, set[int]]]:
    """Per scenario its executions and outcomes."""
    program = model_runs.build(model)
    result = model_runs.run(program, list(arguments), 300)
    assert result.returncode == 0, model_runs.with_places(program, result.stdout)
    found = re.findall(r"^(\w+): (\d+) executions.*?(?:, outcomes ([\d ]+))?$", result.stdout, re.M)
    return {name: (int(count), set(map(int, out.split()))) for name, count, out in found}


def test_explorer_finds_what_c11_allows() -> None:
    assert {name: out for name, (_, out) in explored(MODELS["litmus"]).items()} == LITMUS


@each_row("name", WRONG)
def test_explorer_finds_what_is_wrong(name: str) -> None:
    result = model_runs.run(model_runs.build(MODELS["litmus"]), [name], 60)
    assert result.returncode == 1
    assert result.stdout.startswith(f"{name}: {WRONG[name]}"), result.stdout


@pytest.mark.parametrize("name", ["litmus", "page_map"])
def test_orders_left_out_tell_nothing_new(name: str) -> None:
    some, whole = explored(MODELS[name]), explored(MODELS[name], "--whole")
    for scenario in COUNTED_APART & some.keys():
        assert some[scenario][1] == whole[scenario][1]
        some[scenario] = whole[scenario]
    assert some == whole


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] if name in SLOW else [])
        for name in MODELS
        if name != "litmus"
    ],
)
def test_model(name: str) -> None:
    scenarios = explored(MODELS[name])
    assert scenarios and all(executions > 1 for executions, _ in scenarios.values())


@pytest.mark.nightly  # of the models themselves: 46 s of compiling
@pytest.mark.parametrize("name", [model.name for model in MODELS.values() if model.faults])
def test_planted_faults_are_found(name: str) -> None:
    missed = {}
    for fault in MODELS[name].faults:
        result = model_runs.run(model_runs.build(MODELS[name], fault), [fault.scenario], 300)
        pattern = rf"{fault.scenario}: (wrong: |data race|deadlock|touched after)"
        if result.returncode != 1 or not re.match(pattern, result.stdout):
            missed[fault.name] = result.returncode, result.stdout[:200]
    assert missed == {}


def test_there_are_models_with_faults() -> None:
    assert len(MODELS) > 5 and all(model.faults for model in MODELS.values() if model.sources)
