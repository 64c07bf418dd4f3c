# SPDX-License-Identifier: MIT
"""Images in the layout of the Open Container Initiative, whose bytes depend on their files alone.

No program builds them, and none runs in them: an image is its layers, and two texts in JSON.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packages import archive

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TYPE = "application/vnd.oci.image"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LIBRARY: dict[str, Any] = {}
COMMAND: dict[str, Any] = {
    "Env": [PATH, "LC_ALL=C.UTF-8"], "Entrypoint": ["/usr/local/bin/poolshim"], "Cmd": ["--help"],
}  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A compressed archive, and the checksum of the archive itself."""

    path: Path
    digest: str
    inner: str


@dataclass(frozen=True)
class Facts:
    """Labels of an image, and its time and processor."""

    version: str
    commit: str
    epoch: int
    machine: str
    page: str

    def created(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.epoch))

    def labels(self) -> dict[str, str]:
        found = {"title": "poolshim", "version": self.version, "revision": self.commit,
                 "licenses": "MIT", "url": self.page}  # fmt: skip
        return {f"org.opencontainers.image.{key}": text for key, text in found.items() if text}


def digest_of(path: Path) -> str:
    return f"sha256:{archive.sha256(path)}"


def compress(tar: Path) -> Layer:
    """A layer of an archive."""
    path = tar.with_name(f"{tar.name}.gz")
    with (tar.open("rb") as source, path.open("wb") as target,
          gzip.GzipFile("", "wb", 9, target, mtime=0) as packed):  # fmt: skip
        shutil.copyfileobj(source, packed, 1 << 20)
    return Layer(path, digest_of(path), digest_of(tar))


def layer_of(folder: Path, tar: Path, epoch: int) -> Layer:
    """A layer of all files in a folder, which is the root."""
    with tarfile.open(tar, "w", format=tarfile.GNU_FORMAT) as file:
        for path in sorted(folder.rglob("*")):
            archive.add(file, path, path.relative_to(folder).as_posix(), epoch)
    return compress(tar)


def write(layout: Path, layers: list[Layer], config: dict[str, Any], facts: Facts) -> None:
    """The layout, in an empty folder, or beside the images for other processors of one that is
    there: one index names all of them, and readers take that of their processor."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def add(kind: str, text: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(text, separators=(",", ":"), sort_keys=True).encode()
        name = hashlib.sha256(content).hexdigest()
        (blobs / name).write_bytes(content)
        return {"mediaType": f"{TYPE}.{kind}.v1+json", "digest": f"sha256:{name}",
                "size": len(content)}  # fmt: skip

    rows = []
    for layer in layers:
        shutil.copyfile(layer.path, blobs / layer.digest.partition(":")[2])
        rows.append({"mediaType": f"{TYPE}.layer.v1.tar+gzip", "digest": layer.digest,
                     "size": layer.path.stat().st_size})  # fmt: skip
    history = [{"created": facts.created(), "created_by": "poolshim"} for _ in layers]
    platform = {"architecture": ARCHITECTURES[facts.machine], "os": "linux"}
    text = add("config", {
        **platform, "created": facts.created(),
        "config": {**config, "Labels": facts.labels()}, "history": history,
        "rootfs": {"type": "layers", "diff_ids": [layer.inner for layer in layers]},
    })  # fmt: skip
    manifest = add("manifest", {"schemaVersion": 2, "mediaType": f"{TYPE}.manifest.v1+json",
                                "config": text, "layers": rows})  # fmt: skip
    images = [one for one in images_in(layout) if one["platform"] != platform]
    images.append({**manifest, "platform": platform})
    images.sort(key=lambda one: str(one["platform"]["architecture"]))
    index = add("index", {"schemaVersion": 2, "mediaType": f"{TYPE}.index.v1+json",
                          "manifests": images})  # fmt: skip
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def images_in(layout: Path) -> list[dict[str, Any]]:
    """The images that the index of a layout names, with their processors."""
    top = layout / "index.json"
    if not top.exists():
        return []
    (index,) = json.loads(top.read_text())["manifests"]
    blob = layout / "blobs" / index["digest"].replace(":", "/")
    return list(json.loads(blob.read_text())["manifests"])
