# SPDX-License-Identifier: Apache-2.0
"""SeCoPa's commands, one file per command; hipress.cli imports a file only when its command runs."""
