# SPDX-License-Identifier: Apache-2.0
"""The command `hipress`: its subcommands, and the doctor with the probes that it runs in processes of their own."""
