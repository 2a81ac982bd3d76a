# SPDX-License-Identifier: Apache-2.0
"""What every framework must do alike: one suite, run with the adapter of each framework that is installed.

- `checks/`: what must hold. A check is a function `check_...(adapter)` that runs on every rank, within a world that
  is initialised, and fails by an exception. It sees tensors through the adapter only, as NumPy arrays.
- `adapters/`: one file and one subclass of `Adapter` per framework. `not_yet` names checks that it cannot pass, and
  why.
- `test_conformance.py`: starts a world of 1, 2 and 4 processes per framework, runs all checks in it, one after
  the other, and reports each as a test. After a check that fails the world ends, and the rest have not been run.
- `test_same_in_all.py`: compares what the frameworks' worlds have written to `build/conformance`: for the same input
  the same bytes in messages and the same result.

HIPRESS_FRAMEWORKS="torch,mxnet" says which frameworks must be there; without it those that are installed are tested.
"""
