# SPDX-License-Identifier: Apache-2.0
"""One exchange with PMIx. Run by `pmix.py`: _pmix_client.py KEY SECONDS LIBRARY [LIBRARY].

Rank 0 publishes the text that it reads from standard input; the other ranks wait for the text. All print it. Exit
codes: 0; 3 if rank 0 has not published the text within SECONDS; 1 for other errors, whose text is on standard error.

It imports nothing of hipress, so it starts in about 20 ms. The declarations are from pmix_common.h, the same since PMIx
3.
"""

import ctypes
import os
import sys

_SUCCESS = 0
_ERR_TIMEOUT = -24
_GLOBAL = ctypes.c_uint8(3)  # For ranks on this host and on others.
_STRING, _INT = 3, 6  # Data types.


class _Proc(ctypes.Structure):
    _fields_ = (("namespace", ctypes.c_char * 256), ("rank", ctypes.c_uint32))


class _Data(ctypes.Union):
    # The longest member is the setting of an environment variable with 24 bytes.
    _fields_ = (("string", ctypes.c_char_p), ("integer", ctypes.c_int), ("longest", ctypes.c_void_p * 3))


class _Value(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint16), ("data", _Data))


class _Info(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char * 512), ("flags", ctypes.c_uint32), ("value", _Value))


class _Failed(Exception):
    """A call of PMIx has failed; the text says which."""


def _load(libraries: list[str]) -> ctypes.CDLL:
    errors = []
    for library in libraries:
        try:
            return ctypes.CDLL(library)
        except OSError as error:
            errors.append(str(error))
    raise _Failed("its library cannot be loaded: " + "; ".join(errors))


def _check(pmix: ctypes.CDLL, code: int, call: str) -> None:
    if code != _SUCCESS:
        pmix.PMIx_Error_string.restype = ctypes.c_char_p
        raise _Failed(f"{call} failed with {code}: {pmix.PMIx_Error_string(ctypes.c_int(code)).decode()}")


def _publish(pmix: ctypes.CDLL, key: bytes, text: bytes) -> None:
    value = _Value(type=_STRING)
    value.data.string = text
    _check(pmix, pmix.PMIx_Put(_GLOBAL, key, ctypes.byref(value)), "PMIx_Put")
    _check(pmix, pmix.PMIx_Commit(), "PMIx_Commit")


def _read(pmix: ctypes.CDLL, key: bytes, me: _Proc, seconds: int) -> bytes:
    """Rank 0's text. Raises TimeoutError."""
    deadline = _Info(key=b"pmix.timeout")
    deadline.value.type = _INT
    deadline.value.data.integer = seconds
    rank_0 = _Proc(namespace=me.namespace, rank=0)
    value = ctypes.POINTER(_Value)()
    code = pmix.PMIx_Get(ctypes.byref(rank_0), key, ctypes.byref(deadline), ctypes.c_size_t(1), ctypes.byref(value))
    if code == _ERR_TIMEOUT:
        raise TimeoutError("PMIx_Get timed out")
    _check(pmix, code, "PMIx_Get")
    if value[0].type != _STRING:
        raise _Failed(f"{key.decode()} is not a text")
    return bytes(value[0].data.string)


def main(key: str, seconds: str, *libraries: str) -> int:
    """The exit code."""
    text = sys.stdin.buffer.read()
    try:
        pmix = _load(list(libraries))
        me = _Proc()
        _check(pmix, pmix.PMIx_Init(ctypes.byref(me), None, ctypes.c_size_t(0)), "PMIx_Init")
        try:
            if me.rank == 0:
                _publish(pmix, key.encode(), text)
            else:
                text = _read(pmix, key.encode(), me, int(seconds))
        finally:
            # Without this call PMIx' server would take the rank's end for a failure. It keeps the published text.
            pmix.PMIx_Finalize(None, ctypes.c_size_t(0))
    except TimeoutError as error:
        print(error, file=sys.stderr)
        return 3
    except (_Failed, AttributeError) as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(text)
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    # os._exit() skips the library's exit handlers, which would stop threads that are not this program's.
    os._exit(main(*sys.argv[1:]))
