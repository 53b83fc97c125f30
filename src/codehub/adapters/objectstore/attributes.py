"""A file's attributes as a tar stream writes them go in; which of them whoever restores must be able to give comes out. Refuses others.

A capability makes a program more than its user, as a setuid bit does, which archives always kept: neither works in a workspace, where no
program gains privileges (docs/adr/0009).
"""

import re
from collections.abc import Iterator, Mapping

from codehub.ports.archives import Attribute

ACCESS, DEFAULT = b"SCHILY.acl.access", b"SCHILY.acl.default"
CAPABILITY = b"SCHILY.xattr.security.capability"
OF_USERS = b"SCHILY.xattr.user."

# tar names whomever it finds in /etc/passwd, and who that is on another machine, nobody knows. So it runs where there is none.
_NAME = re.compile(rb"^(?:user|group):[^\d:\n][^:\n]*:", re.MULTILINE)
_RIGHTS = rb"[r-][w-][x-]\n"
_ACL = re.compile(
    rb"user::%(rights)s(?:user:\d+:%(rights)s)*group::%(rights)s(?:group:\d+:%(rights)s)*(?:mask::%(rights)s)?other::%(rights)s"
    % {b"rights": _RIGHTS}
)
# How the kernel shows whoever does not exist in a user namespace. That nobody can be given anything.
_NOBODY = b":4294967295:"
# How long each revision of it is, which its fourth byte names.
_CAPABILITY_BYTES = {b"\x01": 12, b"\x02": 20, b"\x03": 24}


def attributes_of(said: Mapping[bytes, bytes], *, is_file: bool, is_directory: bool) -> Iterator[Attribute]:
    """Yield what of it not everybody can give. Raises ValueError, with why, for what no home's file has."""
    access, default = said.get(ACCESS), said.get(DEFAULT)
    if access is not None or default is not None:
        if not is_directory and (default is not None or not is_file):
            raise ValueError("has an ACL, and is nothing that can have one")
        if _NOBODY in (access or b"") + (default or b""):
            raise ValueError(
                "has an ACL for somebody whom codehub, not being root, can't name: remove that entry (setfacl -x)"
            )
        if _NAME.search((access or b"") + (default or b"")):
            raise ValueError("has an ACL that names somebody by name, not by number: install bubblewrap")
        # tar writes both of a directory, and an empty one where there is no default.
        if not _ACL.fullmatch(access or b"") or (default and not _ACL.fullmatch(default)):
            raise ValueError("has an ACL in a way that we do not write")
        yield Attribute.ACL
    if (capability := said.get(CAPABILITY)) is not None:
        if not is_file or len(capability) != _CAPABILITY_BYTES.get(capability[3:4]):
            raise ValueError("has a capability that Linux does not know")
        yield Attribute.CAPABILITY
