# SPDX-License-Identifier: MIT
# Allocates when it is loaded.
at = 0
while at < BLOCKS
  $kept << "i" * BLOCK_BYTES # PLANTED <top (required)>
  at += 1
end
