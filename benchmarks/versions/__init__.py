# SPDX-License-Identifier: Apache-2.0
"""Two installed versions of HiPress, compared in turns: benchmarks/versions.py."""
