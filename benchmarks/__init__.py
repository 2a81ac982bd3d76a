# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: a file for each command, a folder for each question, and harness/ for the code that they share."""
