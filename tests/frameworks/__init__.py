# SPDX-License-Identifier: Apache-2.0
"""Requirements that every framework must meet: one suite, run with the adapter of each installed framework.

- `checks/`: the requirements. A check is a function `check_...(adapter)` that runs on every rank within an initialised
  world, and fails by an exception. It sees tensors through the adapter only, as NumPy arrays.
- `adapters/`: one file and one subclass of `Adapter` per framework. `not_yet` names the checks that the framework
cannot
  pass, with the reason.
- `test_conformance.py`: starts a world of 1, 2 and 4 processes per framework, runs all checks in it, one after the
  other, and reports each check as a test. A check that fails ends the world, and the later checks do not run.
- `test_same_in_all.py`: compares the files that the frameworks' worlds have written to `build/conformance`: the same
input
  must give the same bytes in messages and the same result.

HIPRESS_FRAMEWORKS="torch,mxnet" names frameworks that must be installed; without it the installed frameworks are
tested.
"""
