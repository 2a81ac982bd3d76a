# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled libraries uses no file that another user can have written, and loads the file that it has
checked."""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest

import hipress
from hipress.compll.build.cache import cached, found, opened
from hipress.compll.build.codec import library_of, read_codec
from hipress.compll.build.compiler import find_compiler
from hipress.compll.build.trusted_files import trusted_folder
from hipress.errors import InvalidArgument
from tests.compll.build import compilers
from tests.compll.build.test_load_codec import program

#: The id of a user who runs no process of the tests.
STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("HIPRESS_CACHE", str(path))
    return path


def keep(folder: Path, key: str, content: bytes = b"a library") -> Path:
    """Writes an entry as a stranger who knows the key would do it."""
    library = folder / f"{key}.so"
    library.write_bytes(content)
    library.with_suffix(".sha256").write_text(hashlib.sha256(content).hexdigest() + "\n")
    return library


def never(folder: Path) -> Path:
    raise AssertionError("made anew")


def shared_library(path: Path, source: str) -> Path:
    text = path.with_suffix(".c")
    text.write_text(source)
    compiler = find_compiler().command
    subprocess.run([*compiler, "-x", "c", "-shared", "-fPIC", str(text), "-o", str(path)], check=True, timeout=120)
    return path


def refused(key: str, said: str) -> None:
    for ask in (lambda: found(key), lambda: cached(key, never, 1.0)):
        with pytest.raises(InvalidArgument, match=said):
            ask()


def test_what_is_ones_own_is_used(folder: Path) -> None:
    library = keep(folder, "key")
    assert found("key") == cached("key", never, 1.0) == library
    with opened(library) as name:
        assert Path(name).read_bytes() == b"a library"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_in_which_others_can_write_is_refused(folder: Path, mode: int) -> None:
    keep(folder, "key")
    folder.chmod(mode)
    refused("key", rf"other users can write to {folder} \(mode {mode:04o}\): chmod go-w it, or set HIPRESS_CACHE to")


@pytest.mark.parametrize("name", ["key.so", "key.sha256"])
def test_a_file_that_others_can_write_is_refused(folder: Path, name: str) -> None:
    keep(folder, "key")
    (folder / name).chmod(0o664)
    refused("key", rf"other users can write to {folder / name} \(mode 0664\)")


def test_a_way_on_which_others_can_put_another_folder_is_refused(folder: Path) -> None:
    keep(folder, "key")
    folder.parent.chmod(0o777)
    refused("key", f"other users can write to {folder.parent} ")
    folder.parent.chmod(0o1777)  # as in /tmp, only a folder's owner can rename it
    assert found("key") is not None


def test_a_link_to_a_folder_in_which_others_can_write_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(folder, "key")
    for target in (str(folder), "cache", "../" + tmp_path.name + "/cache/."):
        (tmp_path / "link").symlink_to(target)
        monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "link"))
        folder.chmod(0o700)
        assert found("key") == tmp_path / "link" / "key.so"
        folder.chmod(0o777)
        refused("key", "other users can write to ")
        (tmp_path / "link").unlink()
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "link" / "deeper"))
    (tmp_path / "link").symlink_to(".")  # a link to a folder is allowed within the path, but not at its end
    keep(tmp_path, "key")
    (tmp_path / "deeper").symlink_to(".")
    tmp_path.chmod(0o1777)
    refused("key", "other users can write to ")


def test_links_in_a_ring_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ring").symlink_to("ring")
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "ring"))
    refused("key", "Too many levels of symbolic links")


def test_what_is_no_file_is_refused_and_not_waited_for(folder: Path) -> None:
    keep(folder, "key").unlink()
    os.mkfifo(folder / "key.so", 0o600)
    refused("key", r"key\.so is not a file: remove it")
    (folder / "key.so").unlink()
    (folder / "key.so").symlink_to("/dev/null")
    refused("key", r"key\.so is a symbolic link, not a file: remove it")


@needs_root
def test_what_belongs_to_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = keep(folder, "key")
    stranger = rf"{{}} belongs to another user, uid {STRANGER}"
    os.chown(library, STRANGER, STRANGER)
    refused("key", stranger.format(library))
    os.chown(library, 0, 0)
    os.chown(folder, STRANGER, STRANGER)
    refused("key", stranger.format(folder))
    os.chown(folder, 0, 0)
    os.chown(folder.parent, STRANGER, STRANGER)
    refused("key", stranger.format(folder.parent))
    os.chown(folder.parent, 0, 0)
    link = folder.parent / "link"
    link.symlink_to(folder)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    monkeypatch.setenv("HIPRESS_CACHE", str(link))
    refused("key", f"{link} is a symbolic link of another user, uid {STRANGER}")


@pytest.mark.slow
@needs_root
def test_a_library_planted_in_another_users_folder_does_not_run(folder: Path, tmp_path: Path) -> None:
    """A stranger needs only the entry's name, which follows from public data."""
    mark = tmp_path / "ran"
    source = f'#include <stdio.h>\n__attribute__((constructor)) void run(void) {{ fopen("{mark}", "w"); }}\n'
    evil = shared_library(tmp_path / "evil.so", source).read_bytes()
    file = program(tmp_path, "planted")
    with pytest.MonkeyPatch.context() as patch:
        harmless = tmp_path / "harmless"
        patch.setenv("HIPRESS_CACHE", str(harmless))
        key = library_of(read_codec(file)).stem
    keep(folder, key, evil)
    os.chown(folder, STRANGER, STRANGER)
    for path in folder.iterdir():
        os.chown(path, STRANGER, STRANGER)
    with pytest.raises(InvalidArgument, match=f"{folder} belongs to another user, uid {STRANGER}: set HIPRESS_CACHE"):
        hipress.load_codec(file)
    assert not mark.exists()
    ctypes.CDLL(str(tmp_path / "evil.so"))
    assert mark.exists(), "the library would have run"


def test_what_is_made_under_any_umask_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "new" / "cache"))

    def make(work: Path) -> Path:
        made = work / "made.so"
        made.write_bytes(b"a library")
        made.chmod(0o777)
        return made

    before = os.umask(0)
    try:
        library = cached("key", make, 1.0)
        assert cached("key", never, 1.0) == library
    finally:
        os.umask(before)
    written = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert len(written) == 5  # both folders, the library, its checksum and the lock
    for path in written:
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path


def test_the_compiler_keeps_what_it_hands_on_beside_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compilers.script(tmp_path / "compiler", 'echo "$TMPDIR" > "$output"')
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    library = library_of(read_codec(program(tmp_path, "kept")))
    assert Path(library.read_text()).parent == tmp_path / "cache"


def test_what_was_checked_is_loaded_whatever_its_name_is_given_to(folder: Path, tmp_path: Path) -> None:
    content = shared_library(tmp_path / "one.so", "int value(void) { return 1; }").read_bytes()
    library = keep(folder, "one", content)
    with opened(library) as name:
        library.unlink()
        library.write_bytes(b"another")
        assert ctypes.CDLL(name).value() == 1


def test_a_descriptors_number_does_not_name_the_library_before(folder: Path, tmp_path: Path) -> None:
    """The loader returns the library that it has already loaded under a name, and descriptor numbers repeat."""
    found_values, numbers = [], set()
    for value in (1, 2, 3):
        source = f"int value(void) {{ return {value}; }}"
        library = keep(folder, str(value), shared_library(tmp_path / f"{value}.so", source).read_bytes())
        with opened(library) as name:
            numbers.add(os.path.basename(name))
            found_values.append(ctypes.CDLL(name).value())
    assert (found_values, len(numbers)) == ([1, 2, 3], 1)


def test_no_descriptor_is_left_open(folder: Path, tmp_path: Path) -> None:
    library = keep(folder, "key")
    (tmp_path / "link").symlink_to(folder)
    before = set(os.listdir("/proc/self/fd"))
    with opened(library), trusted_folder(tmp_path / "link"):
        assert found("key") == library
    folder.chmod(0o777)
    refused("key", "other users")
    assert set(os.listdir("/proc/self/fd")) == before
