# SPDX-License-Identifier: MIT
"""`poolshim inject`: add the library to the pods of Kubernetes manifests."""
