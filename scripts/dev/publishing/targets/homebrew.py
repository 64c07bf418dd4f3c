# SPDX-License-Identifier: MIT
"""A formula in a tap of Homebrew on Linux: the tarball of the release, by its checksum."""

from __future__ import annotations

from functools import cached_property

from packages.archive import sha256
from publishing.repository import Repository
from publishing.target import Target

FILE = "Formula/poolshim.rb"
ARCHITECTURES = {"x86_64": ":x86_64", "aarch64": ":arm64"}
FORMULA = """\
# SPDX-License-Identifier: MIT
# Made by scripts/dev/publish of poolshim.
class Poolshim < Formula
  desc "Drop-in malloc for Linux programs, with commands that check and tune it"
  homepage "{page}"
  url "{address}/v{version}/{tarball}"
  version "{version}"
  sha256 "{sum}"
  license "MIT"

  depends_on arch: {architecture}
  depends_on :linux

  def install
    prefix.install Dir["files/*"]
  end

  def caveats
    <<~EOS
      `poolshim run` needs nothing else. The other subcommands need python3 3.10 or
      later with the packages click and rich:
        python3 -m pip install click rich
    EOS
  end

  test do
    output = shell_output("#{{bin}}/poolshim run -- cat /proc/self/maps")
    assert_match "#{{lib}}/libpoolshim.so", output
  end
end
"""


class Homebrew(Target):
    name = "homebrew"
    needs = (("homebrew", "tap"), ("release", "address"), ("project", "page"))
    tools = ("git",)

    def formula(self) -> str:
        tarball, machine = self.files.tarball()
        return FORMULA.format(
            page=self.address("project", "page"), address=self.address("release", "address"),
            version=self.what.version, tarball=tarball.name, sum=sha256(tarball),
            architecture=ARCHITECTURES[machine])  # fmt: skip

    @cached_property
    def tap(self) -> Repository:
        return Repository(self.own, self.work())

    def is_done(self) -> bool:
        theirs = self.tap.read(FILE) or ""
        if theirs != self.formula() and f'version "{self.what.version}"' in theirs:
            raise self.conflict(self.own)
        return theirs == self.formula()

    def plan(self) -> str:
        return f"{FILE} in {self.own}"

    def upload(self) -> None:
        self.tap.add({FILE: self.formula()})
        self.tap.push(f"poolshim {self.what.version}")
