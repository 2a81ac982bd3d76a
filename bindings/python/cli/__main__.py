# SPDX-License-Identifier: Apache-2.0
"""`python -m hipress.cli`: the command `hipress`, run by this Python."""

from __future__ import annotations

from hipress.cli.main import main

main()
