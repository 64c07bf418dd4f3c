# SPDX-License-Identifier: MIT
"""An emulated machine: the host's files, read only, under a layer of memory; commands, one by one.

Processors are threads of qemu (multi-threaded TCG), so more of them than the host has stand still
for whole time slices, and in any place. Nothing that is written there reaches the host,
except in a folder that is shared for that.
"""

from __future__ import annotations

import gzip
import os
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from emulation.allocators import libraries_of
from emulation.console import BEGIN, END, SHOWN, Console
from emulation.packages import MODULES, PLACE, ROOT, Architecture
from poolshim_cli.allocators import Allocator
from poolshim_cli.errors import BadRequest

BUSYBOX = "/run/busybox"
GROUPS = "/sys/fs/cgroup"
PERIOD_US = 100_000
# Balancing would move pages in which another node's thread frees blocks. The clock is read without
# a system call, as on real machines. Signatures of pointers on ARM take long to emulate.
SETTINGS = "quiet panic=-1 mitigations=off numa_balancing=disable"
SETTINGS_OF = {
    "x86_64": "clocksource=tsc tsc=reliable", "aarch64": "arm64.nopauth", "riscv64": "",
}  # fmt: skip
# A share of the host, read only, under a layer of memory.
MOUNT = """\
mkdir -p /share{i} /changes/{i}/upper /changes/{i}/work /root{place}
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 share{i} /share{i}
layers=lowerdir=/share{i},upperdir=/changes/{i}/upper,workdir=/changes/{i}/work
mount -t overlay -o $layers none /root{place} || poweroff -f
"""
# One that the machine writes to, at once.
MOUNT_WRITABLE = """\
mkdir -p /root{place}
options=trans=virtio,version=9p2000.L,cache=none,msize=512000
mount -t 9p -o $options share{i} /root{place} || poweroff -f
"""
SETUP = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in {modules}; do insmod /modules/$module; done
mount -t tmpfs -o size=90% none /changes
{mounts}mkdir -p /root/bin /root/proc /root/sys /root/dev /root/tmp /root/run
mount -t proc none /root/proc
mount -t sysfs none /root/sys
mount -t devtmpfs none /root/dev
mkdir -p /root/dev/pts /root/dev/shm
ln -s /proc/self/fd /root/dev/fd
for i in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${{i%%:*}}" "/root/dev/${{i#*:}}"; done
mount -t devpts none /root/dev/pts
mount -t tmpfs none /root/dev/shm
mount -t tmpfs none /root/run
mount -t tracefs none /root/sys/kernel/tracing
mount -t cgroup2 none /root/sys/fs/cgroup
echo '+cpu +memory' > /root/sys/fs/cgroup/cgroup.subtree_control
ifconfig lo 127.0.0.1 up
cp /bin/busybox /root/run/busybox
[ -e /root/bin/sh ] || chroot /root /run/busybox --install -s /bin
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
"""


@dataclass(frozen=True)
class Run:
    """A command and its control group, which a watcher stays out of: it makes its command join."""

    name: str
    words: list[str]
    quota: float | None = None
    is_watcher: bool = False

    @property
    def group(self) -> str:
        return f"{GROUPS}/{self.name}"

    def script(self) -> str:
        """Lines of the machine's shell."""
        lines = [f"/bin/mkdir /root{self.group}"]
        if self.quota is not None:
            limit = f"{self.quota * PERIOD_US:.0f} {PERIOD_US}"
            lines.append(f"echo '{limit}' > /root{self.group}/cpu.max")
        inner = "" if self.is_watcher else f"echo 0 > {self.group}/cgroup.procs; "
        inner += f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(self.words)}"
        lines.append(f"echo '{BEGIN.format(self.name)}'")
        lines.append(f"/bin/chroot /root {BUSYBOX} sh -c {shlex.quote(inner)} < /dev/null")
        lines.append(f'echo "{END.format(self.name, "$?")}"')
        return "\n".join(lines) + "\n"


def preloaded(one: Allocator, words: list[str]) -> list[str]:
    """The command on an allocator."""
    settings = [f"{key}={value}" for key, value in one.env.items()]
    settings += [f"LD_PRELOAD={one.library}"] if one.library is not None else []
    return [BUSYBOX, "env", *settings, *words] if settings else words


@dataclass(frozen=True)
class Share:
    """A folder of the host, and where it lies in the machine."""

    folder: Path
    place: str
    is_writable: bool = False


@dataclass(frozen=True)
class Machine:
    """nodes: of NUMA, which share processors and memory evenly. shared: instead of the usual
    folders, the root first."""

    architecture: Architecture
    cpus: int
    mib: int
    nodes: int = 1
    shared: tuple[Share, ...] = ()

    def needs(self) -> tuple[str, ...]:
        """Programs of the host."""
        return (self.architecture.emulator, "setpriv", "cpio", "apt-get", "dpkg-deb")

    def shares(self) -> list[Share]:
        """The first is the machine's root."""
        if self.shared:
            return list(self.shared)
        if self.architecture.is_native:
            return [Share(Path("/"), "")]
        return [Share(libraries_of(self.architecture), ""), Share(ROOT, str(ROOT))]

    def archive(self, place: Path, runs: list[Run]) -> Path:
        """Packs the files of the first process, which mounts the root, runs the commands there and
        powers off."""
        kernel = self.architecture.kernel()
        root = place / "root"
        for name in ("proc", "sys", "dev", "bin", "modules", "changes", "root"):
            (root / name).mkdir(parents=True)
        shutil.copy(self.architecture.busybox(), root / "bin")
        modules = [name for name in MODULES if (kernel / f"{name}.ko").exists()]
        for name in modules:
            shutil.copy(kernel / f"{name}.ko", root / "modules" / name)
        mounts = [
            (MOUNT_WRITABLE if one.is_writable else MOUNT).format(i=i, place=one.place)
            for i, one in enumerate(self.shares())
        ]
        script = SETUP.format(modules=" ".join(modules), mounts="".join(mounts))
        script += "".join(run.script() for run in runs) + "/bin/poweroff -f\n"
        (root / "init").write_text(script)
        (root / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(root)) for path in [root, *sorted(root.rglob("*"))])
        packed = subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(),
            stdout=subprocess.PIPE, check=True,
        ).stdout  # fmt: skip
        archive = root.with_suffix(".gz")
        archive.write_bytes(gzip.compress(packed, 1))
        return archive

    def command(self, archive: Path) -> list[str]:
        """qemu's."""
        kernel = next(self.architecture.kernel().glob("vmlinu[xz]-*"))
        # It ends with this process, however that ends.
        words = ["setpriv", "--pdeathsig", "KILL"]
        words += [self.architecture.emulator, "-machine", self.architecture.machine]
        words += ["-cpu", self.architecture.cpu]
        words += ["-accel", "tcg,thread=multi", "-nographic", "-no-reboot", "-nodefaults"]
        words += ["-serial", "stdio", "-m", f"{self.mib}", "-smp", f"{self.cpus}"]
        words += ["-kernel", str(kernel), "-initrd", str(archive)]
        settings = f"{SETTINGS} {SETTINGS_OF[self.architecture.processor]}"
        words += ["-append", f"console={self.architecture.console} {settings}"]
        for i, one in enumerate(self.shares()):
            access = "readonly=off" if one.is_writable else "readonly=on"
            share = f"local,id=share{i},path={one.folder},security_model=none"
            words += ["-fsdev", f"{share},{access},multidevs=remap"]
            words += ["-device", f"virtio-9p-pci,fsdev=share{i},mount_tag=share{i}"]
        mib, cpus = self.mib // self.nodes, self.cpus // self.nodes
        for node in range(self.nodes):
            own = f"{node * cpus}-{(node + 1) * cpus - 1}"
            words += ["-object", f"memory-backend-ram,id=memory{node},size={mib}M"]
            words += ["-numa", f"node,memdev=memory{node},cpus={own}"]
        return words

    def boot(
        self, runs: list[Run], seconds: float, tick: Callable[[Console], None] = lambda _: None
    ) -> Console:
        """Returns what the machine has said until it powered off; tick comes every second, too."""
        missing = [tool for tool in self.needs() if shutil.which(tool) is None]
        if missing:
            raise BadRequest(f"{missing[0]} is missing: run scripts/setup elsewhere")
        console = Console()
        late = time.monotonic() + seconds
        PLACE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="boot-", dir=PLACE) as place:
            command = self.command(self.archive(Path(place), runs))
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            ) as process:
                try:
                    while self.read(process, console) and time.monotonic() < late:
                        tick(console)
                finally:
                    process.kill()
        if time.monotonic() >= late:
            raise BadRequest(f"the machine did not power off: ...{console.text[-SHOWN:]!r}")
        return console

    @staticmethod
    def read(process: subprocess.Popen[bytes], console: Console) -> bool:
        """Whether there may be more; waits for a second at most."""
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], 1)[0]:
            return True
        text = os.read(process.stdout.fileno(), 1 << 16)
        console.add(text.decode(errors="replace"))
        return bool(text)
