# SPDX-License-Identifier: Apache-2.0
"""SeCoPa's commands, a file each; hipress.cli imports one when it is run."""
