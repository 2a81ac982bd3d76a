# SPDX-License-Identifier: Apache-2.0
"""Every option that users give is declared once, here or in hipress.adapter.gradient_options.

declaration.py  what a declaration says of an option: its meaning, its default, its range
runtime.py      the options of init(), each with its environment variable
travel.py       how a tensor travels: codec, topology, partitions and the rest
group_travel.py  how tensors travel over a process group
signatures.py   signatures and docstrings of functions that take declared options
tables.py       the tables of the guides (docs/update_options.py writes them)
"""
