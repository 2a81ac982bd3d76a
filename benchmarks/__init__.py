# SPDX-License-Identifier: Apache-2.0
"""Benchmarks. Each command has a file, each question a folder, and harness/ has the code that several folders use."""
