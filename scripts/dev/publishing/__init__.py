# SPDX-License-Identifier: MIT
"""The parts of scripts/dev/publish.

release: the commit and the files to publish, and all that forbids it. destinations: where they go.
tools: programs, and addresses that are read. signing: gpg. notes: the part of the changelog.
folder: a folder here or by rsync. repository: a git repository of others.
target: the questions that each target answers; targets: a file each. oci: images.
"""
