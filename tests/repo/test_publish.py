# SPDX-License-Identifier: MIT
"""scripts/dev/publish on planted packages: refusals, and uploads to folders and repositories here.

    scripts/test tests/repo/test_publish.py

Each target: test_publish_targets.py. Registries and bare systems:
tests/package/test_publish_registries.py.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from planted_release import VERSION, place_in, plant
from publishable import Place, git, make_key, need
from publishing import tools
from table import each_row

pytest_plugins = ["planted_once"]


def untouched(place: Place) -> bool:
    """No destination has anything."""
    refs = [git(place.folder / name, "for-each-ref") for name in ("tap", "registry")]
    return not any(refs) and not any((place.folder / name).exists() for name in ("releases", "apt"))


# ---- refusals ----


def dirty(place: Place) -> None:
    (place.tree / "LICENSE").write_text("changed")


def untagged(place: Place) -> None:
    git(place.tree, "tag", "-d", f"v{VERSION}")


def tag_elsewhere(place: Place) -> None:
    git(place.tree, "commit", "-q", "--allow-empty", "-m", "later")


def no_changes(place: Place) -> None:
    path = place.tree / "CHANGELOG.md"
    path.write_text(path.read_text().replace(f"## {VERSION} ", "## 99.0.0 "))
    git(place.tree, "commit", "-q", "-a", "-m", "changelog")
    git(place.tree, "tag", "-f", f"v{VERSION}")
    shutil.rmtree(place.dist)
    plant(place.tree, place.dist)


def other_commit(place: Place) -> None:
    tag_elsewhere(place)
    git(place.tree, "tag", "-f", f"v{VERSION}")


def changed_file(place: Place) -> None:
    next(place.dist.glob("*.whl")).write_bytes(b"changed")


def lost_file(place: Place) -> None:
    next(place.dist.glob("*.whl")).unlink()


def no_sums(place: Place) -> None:
    (place.dist / "SHA256SUMS").unlink()


def wrong_table(place: Place) -> None:
    place.set("docker", folder="x")


def wrong_key(place: Place) -> None:
    place.set("pypi", token="secret")  # noqa: S106 - credentials are refused there


def password_in_address(place: Place) -> None:
    place.set("vcpkg", registry="https://someone:secret@host.example/registry")


def other_bytes(place: Place) -> None:
    folder = place.folder / "releases" / f"v{VERSION}"
    folder.mkdir(parents=True)
    (folder / "SHA256SUMS").write_text("other\n")


def no_address(place: Place) -> None:
    place.set("release")


def no_tap(place: Place) -> None:
    shutil.rmtree(place.folder / "tap")


def closed_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}"


def tool(place: Place, name: str) -> None:
    """A program that does nothing, found before others."""
    folder = place.folder / "tools"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    place.env["PATH"] = f"{folder}:{os.environ['PATH']}"


def unreached(place: Place) -> None:
    tool(place, "twine")
    place.env["TWINE_PASSWORD"] = "secret"  # noqa: S105
    place.set("pypi", upload=closed_port(), index=closed_port())


def no_credential(place: Place) -> None:
    unreached(place)
    del place.env["TWINE_PASSWORD"]


def no_tool(place: Place) -> None:
    folder = place.folder / "few"
    folder.mkdir()
    (folder / "git").symlink_to(shutil.which("git") or "git")
    place.env["PATH"] = str(folder)


REFUSALS = [
    (dirty, ["release"], "there are uncommitted changes"),
    (untagged, ["release"], f"the commit has no tag v{VERSION}"),
    (tag_elsewhere, ["release"], f"the commit has no tag v{VERSION}"),
    (no_changes, ["release"], f"CHANGELOG.md says nothing of {VERSION}"),
    (other_commit, ["release"], "scripts/package --system bullseye makes it"),
    (changed_file, ["release"], ".whl is not the file of SHA256SUMS"),
    (lost_file, ["release"], ".whl is missing: SHA256SUMS lists it"),
    (wrong_table, ["release"], "[docker] is none of project, release"),
    (wrong_key, ["pypi"], "[pypi] takes text for upload, index, not token"),
    (password_in_address, ["vcpkg"], "[vcpkg] registry contains a password"),
    (other_bytes, ["release"], "a published version is never replaced"),
    (no_address, ["homebrew"], "[release] address is empty"),
    (no_address, ["release"], "[release] folder is empty"),
    (no_tap, ["homebrew"], "does not exist"),
    (unreached, ["pypi"], "is not reached"),
    (no_credential, ["pypi"], "not set: TWINE_PASSWORD"),
    (no_tool, ["release"], "missing: rsync; scripts/setup publish installs it"),
]


@pytest.mark.slow
@each_row("change, targets, said", REFUSALS)
def test_a_refusal_is_one_line_and_nothing_is_published(
    tmp_path: Path, committed: Path, change: Callable[[Place], None], targets: list[str], said: str
) -> None:
    need("rsync")
    place = place_in(tmp_path, committed)
    change(place)
    for act in ("--dry-run", "--upload"):
        done = place.publish(act, "--no-sign", "vcpkg", *targets)
        assert done.returncode == 1
        lines = [line for line in (done.stdout + done.stderr).splitlines() if said in line]
        assert len(lines) == 1, done.stdout + done.stderr
        assert done.stderr.splitlines()[-1] == "scripts/dev/publish: nothing is published"
        assert change is other_bytes or change is no_tap or untouched(place)


def test_a_dry_run_without_packages_says_what_makes_them(place: Place) -> None:
    no_sums(place)
    done = place.publish("--no-sign", "vcpkg")
    assert done.returncode == 1
    assert "SHA256SUMS is not there: scripts/package --system bullseye" in done.stderr


def test_an_upload_makes_packages_that_are_missing(place: Place) -> None:
    """By scripts/package, which is another one here: it copies planted packages."""
    package = place.tree / "scripts" / "package"
    package.write_text(
        f'#!/bin/sh\n[ "$*" = "--system bullseye --output {place.dist}" ] || exit 1\n'
        f'cp -r "{place.folder}/made" "{place.dist}"\n')
    git(place.tree, "commit", "-q", "-a", "-m", "package")
    git(place.tree, "tag", "-f", f"v{VERSION}")
    shutil.rmtree(place.dist)
    failed = place.publish("--upload", "--no-sign", "vcpkg")
    assert failed.returncode == 1 and untouched(place)
    assert "refused: scripts/package failed\n" in failed.stderr
    plant(place.tree, place.folder / "made")
    done = place.publish("--upload", "--no-sign", "vcpkg")
    assert done.returncode == 0 and "  vcpkg     done" in done.stdout, done.stderr


def test_packages_for_a_further_processor_go_where_several_are_taken(place: Place) -> None:
    """A folder beside dist/ is no uncommitted change."""
    need("apt-ftparchive", "rsync")
    place.dist = place.dist.rename(place.tree / "dist-aarch64")
    (place.tree / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    git(place.tree, "add", "-A")
    git(place.tree, "commit", "-q", "-m", "ignore")
    git(place.tree, "tag", "-f", f"v{VERSION}")
    shutil.rmtree(place.dist)
    plant(place.tree, place.dist)
    done = place.publish("--upload", "--no-sign", "--further")
    assert done.returncode == 0 and "  apt       done" in done.stdout, done.stdout + done.stderr
    assert not (place.folder / "releases").exists()
    refused = place.publish("--upload", "--no-sign", "--further", "release")
    assert refused.returncode == 1
    assert "release takes one processor, or sources alone" in refused.stderr


def test_a_dry_run_lists_all_that_is_wrong(place: Place) -> None:
    need("gpg")
    dirty(place)
    untagged(place)
    done = place.publish("vcpkg")
    refused = [line for line in done.stderr.splitlines() if ": refused: " in line]
    assert len(refused) == 3 and "RELEASE_SIGNING_KEY is not set; --no-sign" in refused[2]
    assert "vcpkg     would get: ports/poolshim" in done.stdout


@each_row("key, said", [
    ("0123456789ABCDEF0123456789ABCDEF01234567", "RELEASE_SIGNING_KEY: gpg --batch:"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nnone\n", "gpg --batch:"),
])  # fmt: skip
def test_a_wrong_key_is_refused(tmp_path: Path, committed: Path, key: str, said: str) -> None:
    need("gpg")
    place = place_in(tmp_path, committed)
    place.env = {"RELEASE_SIGNING_KEY": key, "GNUPGHOME": str(tmp_path)}
    done = place.publish("--upload", "vcpkg")
    assert done.returncode == 1 and untouched(place)
    refused, last = done.stderr.splitlines()
    assert f"refused: {said}" in refused and last.endswith("nothing is published")


def test_wrong_arguments_are_refused() -> None:
    command = [ROOT / "scripts" / "dev" / "publish"]
    for words, said in ((["rpm"], "rpm is none of release, pypi"),
                        (["--dry-run", "--upload"], "not allowed with")):  # fmt: skip
        done = run_captured([*command, *words])
        assert (done.returncode, done.stdout) == (2, "") and said in done.stderr


# ---- uploads ----


def test_targets_without_an_address_are_left_out(place: Place) -> None:
    for table in ("homebrew", "apt", "release"):
        place.set(table)
    done = place.publish("--upload", "--no-sign")
    assert done.returncode == 0, done.stderr
    assert "  homebrew  left out: [homebrew] tap is empty" in done.stdout
    assert "  vcpkg     done" in done.stdout and "  release   left out" in done.stdout


def test_a_release_is_signed_and_its_files_verify(place: Place) -> None:
    need("rsync", "gpg")
    place.env["RELEASE_SIGNING_KEY"] = make_key(place.folder / "keys", "open sesame")
    place.env["RELEASE_SIGNING_PASSPHRASE"] = "open sesame"  # noqa: S105
    done = place.publish("--upload", "release")
    assert done.returncode == 0, done.stderr
    folder = place.folder / "releases" / f"v{VERSION}"
    for name in place.dist.iterdir():
        assert (folder / name.name).read_bytes() == name.read_bytes()
    home = place.folder / "reader"
    home.mkdir(mode=0o700)
    reader = {**os.environ, "GNUPGHOME": str(home)}
    text = (folder / "NOTES.md").read_text()
    commands = text.partition("```sh\n")[2].partition("```")[0]
    verified = run_captured(["bash", "-ec", commands], cwd=folder, env=reader)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "Good signature from" in verified.stderr
    (folder / "SHA256SUMS").write_text("changed\n")
    assert run_captured(["bash", "-ec", commands], cwd=folder, env=reader).returncode != 0
    run_captured(["gpgconf", "--homedir", home, "--kill", "all"])


def test_the_same_command_goes_on_after_a_failure(place: Place) -> None:
    need("rsync")
    hook = place.folder / "tap" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'fatal: the tap is closed' >&2\nexit 1\n")
    hook.chmod(0o755)
    names = ("--upload", "--no-sign", "release", "homebrew", "vcpkg")
    first = place.publish(*names)
    assert first.returncode == 1 and "  release   done\n" in first.stdout
    failed, left = first.stderr.splitlines()[-2:]
    assert "homebrew failed: git -C: " in failed
    assert "done: release; left: homebrew, vcpkg; the same command goes on" in left
    assert not git(place.folder / "registry", "for-each-ref")
    hook.unlink()
    second = place.publish(*names)
    assert second.returncode == 0, second.stderr
    assert "  release   has it already\n" in second.stdout
    assert second.stdout.endswith("  homebrew  done\n  vcpkg     done\n")
    third = place.publish(*names)
    assert third.returncode == 0 and third.stdout.count("has it already") == 3
    assert git(place.folder / "tap", "rev-list", "--count", "main") == "1"


def test_a_release_folder_that_was_interrupted_is_completed(place: Place) -> None:
    """SHA256SUMS is written last: without it nothing is there."""
    need("rsync")
    folder = place.folder / "releases" / f"v{VERSION}"
    folder.mkdir(parents=True)
    (folder / next(place.dist.glob("*.whl")).name).write_bytes(b"half")
    assert place.publish("--upload", "--no-sign", "release").returncode == 0
    check = ["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"]
    assert run_captured(check, cwd=folder).returncode == 0
    assert "gpg" not in (folder / "NOTES.md").read_text()


TWINE = """\
Uploading distributions to http://127.0.0.1:8191/
\x1b[33mWARNING \x1b[0m Error during upload. Retry with the --verbose option for more details.
\x1b[31mERROR   \x1b[0m HTTPError: 403 Forbidden from http://127.0.0.1:8191/
         Forbidden
"""
SKOPEO = 'time="2026-11-30T00:43:03Z" level=fatal msg="Error parsing \\"docker://x\\": no TLS"\n'
CARGO = """\
    Updating `trial` index
error: failed to publish to registry at http://127.0.0.1:1

Caused by:
  the remote server responded with an error (status 403): the token is not valid
"""
GIT = """\
remote: fatal: the tap is closed
To /tap
 ! [remote rejected] HEAD -> main (pre-receive hook declined)
error: failed to push some refs to '/tap'
"""


@each_row("text, said", [
    (TWINE, "ERROR HTTPError: 403 Forbidden from http://127.0.0.1:8191/"),
    (SKOPEO, 'Error parsing "docker://x": no TLS'),
    (CARGO, "error: failed to publish to registry at http://127.0.0.1:1: the remote server "
            "responded with an error (status 403): the token is not valid"),
    (GIT, "error: failed to push some refs to '/tap'"),
    ("first\nlast\n", "last"),
    ("", "nothing said"),
])  # fmt: skip
def test_the_reason_of_a_program_is_one_line(text: str, said: str) -> None:
    assert tools.reason(text) == said
