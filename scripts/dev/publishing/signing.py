# SPDX-License-Identifier: MIT
"""Signatures by gpg, with a key from the environment.

$RELEASE_SIGNING_KEY is the fingerprint of a key that gpg has, or a secret key in armour, which is
imported into a keyring that ends with the command. $RELEASE_SIGNING_PASSPHRASE unlocks it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .tools import PublishError, missing, output, run

KEY = "RELEASE_SIGNING_KEY"
PASSPHRASE = "RELEASE_SIGNING_PASSPHRASE"  # noqa: S105 - its name
ARMOUR = "-----BEGIN PGP PRIVATE KEY BLOCK-----"
BATCH = ("gpg", "--batch", "--yes", "--no-tty", "--pinentry-mode", "loopback")


@dataclass(frozen=True)
class Signer:
    """A key that signs, and its keyring; without a key, nothing is signed."""

    key: str = ""
    home: Path | None = None

    def gpg(self, *words: str | Path, text: str = "") -> str:
        own = {"GNUPGHOME": str(self.home)} if self.home else {}
        return output(*BATCH, *words, text=text, environment=own)

    def sign(self, path: Path, kind: str, result: Path) -> None:
        """Writes a signature, of the kind --detach-sign or --clear-sign."""
        phrase = os.environ.get(PASSPHRASE, "")
        self.gpg("--passphrase-fd", "0", "--local-user", self.key, "--armor", "--digest-algo",
                 "SHA256", "--output", result, kind, path, text=f"{phrase}\n")  # fmt: skip

    def public(self) -> str:
        """The public key, in armour."""
        return self.gpg("--armor", "--export-options", "export-minimal", "--export", self.key)

    def close(self) -> None:
        """Ends the agent of a keyring that is removed."""
        if self.home:
            run("gpgconf", "--homedir", self.home, "--kill", "all")


def signer(folder: Path) -> Signer:
    """The key of the environment, tried by a signature."""
    if missing(("gpg",)):
        raise PublishError("missing: gpg; --no-sign does without")
    key = os.environ.get(KEY, "")
    if not key:
        raise PublishError(f"{KEY} is not set; --no-sign does without")
    found = Signer(key)
    if key.lstrip().startswith(ARMOUR):
        home = folder / "keyring"
        home.mkdir(mode=0o700)
        found = Signer("", home)
        found.gpg("--import", text=key)
        rows = found.gpg("--list-secret-keys", "--with-colons").splitlines()
        names = [row.split(":")[9] for row in rows if row.startswith("fpr:")]
        found = Signer(names[0], home)
    trial = folder / "trial"
    trial.write_text("trial\n")
    try:
        found.sign(trial, "--detach-sign", folder / "trial.asc")
    except PublishError as error:
        found.close()
        raise PublishError(f"{KEY}: {error}") from None
    return found
