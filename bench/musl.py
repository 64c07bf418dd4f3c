# SPDX-License-Identifier: MIT
"""musl's malloc against libpoolshim.a in static programs: user and system time, and peak memory.

    python3 bench/musl.py build/musl              (a build for musl: cmake --preset musl)

Links each program of bench/ by musl-gcc -static without the archive and with it, and runs the two
in turns. A table in Markdown: medians, and the ratio of the times with its spread.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPEATS = 5
PROGRAMS = {
    "pair": ["--operations", "5000000", "--rounds", "1"],
    "replace": ["--operations", "2000000", "--rounds", "2"],
    "bursts": ["--rounds", "3"],
    "server": [],
    "storm": [],
    "churn": ["--rounds", "3"],
}
FLAGS = ["-O2", "-D_GNU_SOURCE", "-static", "-pthread", f"-I{ROOT}", f"-I{ROOT / 'bench'}",
         "-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc",
         "-fno-builtin-free"]  # fmt: skip


def build(name: str, program: Path, archive: Path | None) -> Path:
    """The program, with the archive or without."""
    headers = ["-idirafter", str(Path(sys.argv[1]) / "kernel-headers")]
    library = [str(archive)] if archive else []
    source = ROOT / "bench" / f"{name}.c"
    subprocess.run(["musl-gcc", *FLAGS, *headers, source, *library, "-o", program], check=True)
    return program


def measure(program: Path, arguments: list[str]) -> tuple[float, int]:
    """Seconds of processor time, and KiB at the peak."""
    command = ["/usr/bin/time", "-f", "%U %S %M", program, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    user, system, peak = done.stderr.split()[-3:]
    return float(user) + float(system), int(peak)


def row(name: str, folder: Path) -> str:
    """Both kinds, one after the other, again and again."""
    archive = Path(sys.argv[1]) / "libpoolshim.a"
    musl = build(name, folder / f"{name}-musl", None)
    ours = build(name, folder / f"{name}-poolshim", archive)
    pairs = [(measure(musl, PROGRAMS[name]), measure(ours, PROGRAMS[name]))
             for _ in range(REPEATS)]  # fmt: skip
    ratios = sorted(one[0] / before[0] for before, one in pairs)
    peaks = [statistics.median(pair[side][1] for pair in pairs) / 1024 for side in (0, 1)]
    return (f"| `{name}` | {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) "
            f"| {peaks[0]:.1f} | {peaks[1]:.1f} |")  # fmt: skip


def main() -> None:
    """The table."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "libpoolshim.a").exists():
        sys.exit("usage: musl.py BUILD, a folder with libpoolshim.a for musl")
    print("| program | poolshim's time / musl's | MiB, musl | MiB, poolshim |")
    print("|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
