"""An IDE that a workspace's user can't read goes in, a copy of it that everybody can read comes out, made
once for its content.

A Python below a home that only its owner may enter (pyenv under /root) is one: outside a sandbox, nobody else
gets there.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from codehub.adapters.cache import build_once, make_enterable
from codehub.adapters.local.installed_ides import IdePaths, InstalledIde
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

_EVERYBODY_READS, _EVERYBODY_RUNS = 0o444, 0o555
# What a virtual environment needs of the Python that it was made from: not what is installed beside, nor its
# tests.
_BASE_PYTHON = ("bin/python*", "lib/*.so*", "lib64", "lib/python3*")
_NOT_NEEDED = frozenset({"site-packages", "dist-packages", "test"})


def readable_copy(ide: InstalledIde, cache: Path) -> InstalledIde:
    """Return the ide of the copy. Raises ActionFailed where none can be made."""
    try:
        roots = sorted({path.resolve() for path in ide.visible if not path.is_relative_to("/usr")})
        target = cache / f"{ide.name}-{_fingerprint(roots)}"
        copies = {root: target / str(number) for number, root in enumerate(roots)}
        new_paths = {
            path: copies[path.resolve()] for path in (*ide.visible, *roots) if path.resolve() in copies
        }
        libraries = target / "lib"

        def build(partial: Path) -> None:
            # Links lead to where the copy will be, not to where it is made.
            for root, copy in copies.items():
                _copy(root, partial / copy.relative_to(target), new_paths)
            make_enterable(partial / libraries.name)
            for root in roots:
                for library in root.glob("lib/libpython*.so*"):
                    _link_or_copy(library, partial / libraries.name / library.name)

        if not build_once(target, build, lock=f"{ide.name}.lock"):
            raise ActionFailed(Message(Code.PATH_FOREIGN, {"path": str(target)}))
        has_libraries = any(libraries.iterdir())
    except OSError as error:
        raise ActionFailed(
            Message(Code.IDE_NOT_COPIED, {"ide": ide.name, "path": str(cache), "text": str(error)})
        ) from error

    def argv(place: IdePaths) -> Sequence[str]:
        return [_translate(argument, new_paths) for argument in ide.argv(place)]

    return replace(
        ide,
        program=Path(_translate(str(ide.program), new_paths)),
        argv=argv,
        check=tuple(_translate(argument, new_paths) for argument in ide.check),
        visible=tuple(Path(_translate(str(path), new_paths)) for path in ide.visible),
        hidden=tuple(Path(_translate(str(path), new_paths)) for path in ide.hidden),
        bin=tuple(Path(_translate(str(path), new_paths)) for path in ide.bin),
        environment={name: _translate(value, new_paths) for name, value in ide.environment.items()}
        # A Python that was built to share its library looks for it where it was installed.
        | ({"LD_LIBRARY_PATH": str(libraries)} if has_libraries else {}),
    )


def _copy(root: Path, copy: Path, new_paths: Mapping[Path, Path]) -> None:
    for path in _list_copied(root):
        new = copy / path.relative_to(root)
        make_enterable(new.parent)
        if path.is_symlink():
            new.symlink_to(_translate(str(path.readlink()), new_paths))
        elif path.is_dir():
            make_enterable(new)
        elif path.name == "pyvenv.cfg":
            lines = (line.partition("= ") for line in path.read_text().splitlines())
            new.write_text(
                "".join(f"{name}{sign}{_translate(value, new_paths)}\n" for name, sign, value in lines)
            )
            new.chmod(0o644)
        elif path.is_file():
            _link_or_copy(path, new)


def _link_or_copy(path: Path, new: Path) -> None:
    """Link the file, which costs nothing; copy it if others may not read it, or it is on another disk."""
    mode = path.stat().st_mode
    readable_mode = _EVERYBODY_RUNS if mode & stat.S_IXUSR else _EVERYBODY_READS
    if mode & readable_mode == readable_mode and not path.is_symlink():
        try:
            os.link(path, new)
        except OSError:
            pass
        else:
            return
    shutil.copyfile(path, new)
    new.chmod(readable_mode | stat.S_IWUSR)


def _list_copied(root: Path) -> Iterator[Path]:
    """Yield the paths to copy: all of a tree, but of a base Python only what virtual environments need."""
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
        for path in sorted(_list_copied(root)):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) or "__pycache__" in path.parts:
                continue  # these change when they are only read
            line = f"{path}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\n"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def _translate(value: str, new_paths: Mapping[Path, Path]) -> str:
    """Return the value as it is in the copy, if it is a path that was copied."""
    if not value.startswith("/"):
        return value
    path = Path(value)
    for root in sorted(new_paths, key=lambda root: len(root.parts), reverse=True):
        if path.is_relative_to(root):
            return str(new_paths[root] / path.relative_to(root))
    return value
