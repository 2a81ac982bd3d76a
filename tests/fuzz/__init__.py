# SPDX-License-Identifier: Apache-2.0
"""Fuzzers of all data from outside: payloads and wire headers in C++, programs in Python. `make fuzz` runs them."""
