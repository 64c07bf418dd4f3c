# SPDX-License-Identifier: MIT
"""Two container images, by skopeo: VERSION-library has one file, VERSION the command on Debian.

Each is an index of images, one for each processor: the packages of another are added to it.
An image is there where its last layer is, which has our files. Debian's layer below it is made of
the packages of the day.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import tarfile
from functools import cached_property
from pathlib import Path
from typing import Any

from packages import bare_root
from publishing import oci
from publishing.target import Target
from publishing.tools import PublishError, output, reason, run

ABSENT = re.compile(r"(?i)manifest unknown|name unknown|not found|no such file|no descriptor|"
                    r"repository does not exist|StatusCode: 404")  # fmt: skip
LIBRARY = Path("lib", "libpoolshim.so")
LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$")
SUITE = "bookworm"
PACKAGES = ("python3", "python3-click", "python3-rich", "ca-certificates")
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
USER, PASSWORD = "REGISTRY_USER", "REGISTRY_PASSWORD"  # noqa: S105 - their names


class Image(Target):
    name = "image"
    needs = (("image", "repository"),)
    takes_processors = True
    tools = ("skopeo", "mmdebstrap")

    def credentials(self) -> tuple[str, ...]:
        return (USER, PASSWORD) if self.own.startswith("docker://") else ()

    @property
    def host(self) -> str:
        return self.own.removeprefix("docker://").partition("/")[0]

    def tls(self, option: str) -> tuple[str, ...]:
        """No TLS with a registry on this machine, as docker has it."""
        return (f"--{option}=false",) if LOOPBACK.match(self.host) else ()

    @cached_property
    def login(self) -> str:
        """The option of skopeo: the password is in a file, since all processes see arguments."""
        secret = f"{os.environ[USER]}:{os.environ[PASSWORD]}".encode()
        path = self.work() / "auth.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(
            {"auths": {self.host: {"auth": base64.b64encode(secret).decode()}}}))  # fmt: skip
        return f"authfile={path}"

    def access(self, prefix: str) -> list[str]:
        """Options of skopeo for the destination."""
        if not self.credentials():
            return []
        return [f"--{prefix}{self.login}", *self.tls(f"{prefix}tls-verify")]

    def reference(self, kind: str) -> str:
        return f"{self.own}:{self.what.version}{kind}"

    @cached_property
    def tree(self) -> tuple[Path, str]:
        """The files of the tarball, and their processor."""
        path, machine = self.files.tarball()
        folder = self.work()
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter="data")
        return folder / path.name.removesuffix(".tar.xz") / "files", machine

    @cached_property
    def layers(self) -> dict[str, oci.Layer]:
        """Kind of image -> the layer of our files."""
        tree, _ = self.tree
        library, command = self.work(), self.work()
        (library / "usr" / "lib").mkdir(parents=True)
        shutil.copy(tree / LIBRARY, library / "usr" / LIBRARY)  # the file, not the link
        (command / "usr").mkdir()
        shutil.copytree(tree, command / "usr" / "local", symlinks=True,
                        ignore=shutil.ignore_patterns("doc", "man"))  # fmt: skip
        return {kind: oci.layer_of(folder, self.work() / "layer", self.what.epoch)
                for kind, folder in (("-library", library), ("", command))}  # fmt: skip

    @property
    def architecture(self) -> str:
        return oci.ARCHITECTURES[self.tree[1]]

    def index(self, kind: str) -> dict[str, Any] | None:
        """The manifest or index under the name of an image; None: there is no such image."""
        reference = self.reference(kind)
        done = run("skopeo", "inspect", "--raw", *self.access(""), reference)
        if done.returncode == 0:
            return dict(json.loads(done.stdout))
        if ABSENT.search(done.stderr):
            return None
        raise PublishError(f"{reference}: {reason(done.stderr)}")

    def published(self, kind: str) -> str | None:
        """The checksum of the last layer of the image for this processor, if it is there."""
        found, reference = self.index(kind), self.reference(kind)
        if found is None:
            return None
        if "manifests" not in found:
            raise PublishError(f"{reference} is an image for one processor, not an index")
        if self.architecture not in [one["platform"]["architecture"] for one in found["manifests"]]:
            return None
        image = output("skopeo", "--override-os", "linux", "--override-arch", self.architecture,
                       "inspect", "--no-tags", *self.access(""), reference)  # fmt: skip
        return str(json.loads(image)["Layers"][-1])

    def left(self) -> list[str]:
        """Kinds that are not there."""
        found = []
        for kind, layer in self.layers.items():
            digest = self.published(kind)
            if digest not in (None, layer.digest):
                raise self.conflict(self.reference(kind))
            if digest is None:
                found.append(kind)
        return found

    def is_done(self) -> bool:
        return not self.left()

    def plan(self) -> str:
        return " and ".join(self.reference(kind) for kind in self.left())

    def check(self) -> None:
        super().check()
        if not bare_root.can_run(self.tree[1]):
            raise PublishError(f"Debian for {self.tree[1]} cannot be installed on this machine: "
                               f"that needs x86-64 and {bare_root.EMULATOR}")  # fmt: skip

    def base(self) -> oci.Layer:
        """Debian with Python, as little as runs. The check of mmdebstrap asks whether this machine
        runs programs of another processor; only the namespace of the command does."""
        suite = bare_root.SUITES[SUITE]
        tar = self.work() / "debian.tar"
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
        command = ["mmdebstrap", "--quiet", "--variant=essential", "--skip=check/qemu",
                   f"--include={','.join(PACKAGES)}", f"--architectures={self.architecture}",
                   *options]  # fmt: skip
        command += [suite.name, str(tar), suite.mirror]
        output(*bare_root.emulated(command, self.tree[1]),
               environment={"SOURCE_DATE_EPOCH": str(self.what.epoch)})  # fmt: skip
        return oci.compress(tar)

    def put(self, kind: str, layers: list[oci.Layer], config: dict[str, Any]) -> None:
        """Adds an image to those of other processors, if there are some."""
        layout, reference = self.work(), self.reference(kind)
        if self.index(kind):
            output("skopeo", "--insecure-policy", "copy", "--quiet", "--all",
                   *self.access("src-"), reference, f"oci:{layout}")  # fmt: skip
        page = self.all.destinations["project"]["page"]
        facts = oci.Facts(self.what.version, self.what.commit, self.what.epoch, self.tree[1], page)
        oci.write(layout, layers, config, facts)
        output("skopeo", "--insecure-policy", "copy", "--quiet", "--all",
               *self.access("dest-"), f"oci:{layout}", reference)  # fmt: skip

    def upload(self) -> None:
        for kind in self.left():
            if kind:
                self.put(kind, [self.layers[kind]], oci.LIBRARY)
            else:
                self.put(kind, [self.base(), self.layers[kind]], oci.COMMAND)
