# SPDX-License-Identifier: Apache-2.0
"""The declarations of options. Each option is declared once, here or in hipress.adapter.gradient_options.

declaration.py  the parts of a declaration: meaning, default, range
runtime.py      the options of init(), each with its environment variable
travel.py       options of a tensor's way: codec, topology, partitions and others
group_travel.py  options of tensors over a process group
signatures.py   signatures and docstrings of functions that take declared options
tables.py       tables of options for the guides (docs/update_options.py writes them)
"""
