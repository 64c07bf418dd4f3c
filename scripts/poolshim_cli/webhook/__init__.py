# SPDX-License-Identifier: MIT
"""`poolshim webhook`: add the library to pods of a Kubernetes cluster as they are created."""
