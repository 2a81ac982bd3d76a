# SPDX-License-Identifier: Apache-2.0
"""The command `hipress`: its subcommands, and the doctor, which runs each probe in a separate process."""
