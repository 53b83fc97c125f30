"""An IDE that a workspace's user can't read goes in, a copy of it that everybody can read comes out, made once for its content.

A Python below a home that only its owner may enter (pyenv under /root) is one: outside a sandbox, nobody else gets there.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from codehub.adapters.cache import built_once, make_enterable
from codehub.adapters.local.installed_ides import InstalledIde, Place
from codehub.ports.backends import ActionFailed

_EVERYBODY_READS, _EVERYBODY_RUNS = 0o444, 0o555
# What a virtual environment needs of the Python that it was made from: not what is installed beside, nor its tests.
_BASE_PYTHON = ("bin/python*", "lib/*.so*", "lib64", "lib/python3*")
_NOT_NEEDED = frozenset({"site-packages", "dist-packages", "test"})


def readable_copy(ide: InstalledIde, cache: Path) -> InstalledIde:
    """Return the ide of the copy. Raises ActionFailed where none can be made."""
    try:
        roots = sorted({path.resolve() for path in ide.visible if not path.is_relative_to("/usr")})
        target = cache / f"{ide.name}-{_fingerprint(roots)}"
        copies = {root: target / str(number) for number, root in enumerate(roots)}
        moved = {path: copies[path.resolve()] for path in (*ide.visible, *roots) if path.resolve() in copies}
        libraries = target / "lib"

        def build(partial: Path) -> None:
            # Links lead to where the copy will be, not to where it is made.
            for root, copy in copies.items():
                _copy(root, partial / copy.relative_to(target), moved)
            make_enterable(partial / libraries.name)
            for root in roots:
                for library in root.glob("lib/libpython*.so*"):
                    _take_file(library, partial / libraries.name / library.name)

        if not built_once(target, build, lock=f"{ide.name}.lock"):
            raise ActionFailed(f"{target} belongs to somebody else: remove it")
        has_libraries = any(libraries.iterdir())
    except OSError as error:
        raise ActionFailed(f"{ide.name} can't be copied to {cache}: {error}") from error

    def argv(place: Place) -> Sequence[str]:
        return [_moved(word, moved) for word in ide.argv(place)]

    return replace(
        ide,
        program=Path(_moved(str(ide.program), moved)),
        argv=argv,
        check=tuple(_moved(word, moved) for word in ide.check),
        visible=tuple(Path(_moved(str(path), moved)) for path in ide.visible),
        hidden=tuple(Path(_moved(str(path), moved)) for path in ide.hidden),
        bin=tuple(Path(_moved(str(path), moved)) for path in ide.bin),
        environment={name: _moved(value, moved) for name, value in ide.environment.items()}
        # A Python that was built to share its library looks for it where it was installed.
        | ({"LD_LIBRARY_PATH": str(libraries)} if has_libraries else {}),
    )


def _copy(root: Path, copy: Path, moved: Mapping[Path, Path]) -> None:
    for path in _parts(root):
        new = copy / path.relative_to(root)
        make_enterable(new.parent)
        if path.is_symlink():
            new.symlink_to(_moved(str(path.readlink()), moved))
        elif path.is_dir():
            make_enterable(new)
        elif path.name == "pyvenv.cfg":
            lines = (line.partition("= ") for line in path.read_text().splitlines())
            new.write_text("".join(f"{name}{sign}{_moved(value, moved)}\n" for name, sign, value in lines))
            new.chmod(0o644)
        elif path.is_file():
            _take_file(path, new)


def _take_file(path: Path, new: Path) -> None:
    """A second name costs nothing. A file that others may not read, or of another disk, is copied."""
    mode = path.stat().st_mode
    wanted = _EVERYBODY_RUNS if mode & stat.S_IXUSR else _EVERYBODY_READS
    if mode & wanted == wanted and not path.is_symlink():
        try:
            os.link(path, new)
        except OSError:
            pass
        else:
            return
    shutil.copyfile(path, new)
    new.chmod(wanted | stat.S_IWUSR)


def _parts(root: Path) -> Iterator[Path]:
    """Yield what is copied of a tree: all of it, but of a Python's own installation what others run on it."""
    is_base_python = not (root / "pyvenv.cfg").exists() and any(root.glob("lib/python3*/os.py"))
    tops = (
        sorted(part for pattern in _BASE_PYTHON for part in root.glob(pattern)) if is_base_python else [root]
    )
    for top in tops:
        yield top
        if top.is_symlink() or not top.is_dir():
            continue
        for directory, directories, files in os.walk(top):
            if is_base_python:
                directories[:] = [name for name in directories if name not in _NOT_NEEDED]
            for name in (*directories, *files):
                yield Path(directory) / name


def _fingerprint(roots: Sequence[Path]) -> str:
    digest = sha256()
    for root in roots:
        for path in sorted(_parts(root)):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) or "__pycache__" in path.parts:
                continue  # these change when somebody only looks at them
            told = f"{path}\0{found.st_mode}\0{found.st_size}\0{found.st_mtime_ns}\n"
            digest.update(told.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def _moved(word: str, moved: Mapping[Path, Path]) -> str:
    """Return a word as it is in the copy, if it is a path that was copied."""
    if not word.startswith("/"):
        return word
    path = Path(word)
    for root in sorted(moved, key=lambda root: len(root.parts), reverse=True):
        if path.is_relative_to(root):
            return str(moved[root] / path.relative_to(root))
    return word
