"""A file's attributes in a tar stream go in; those that a restore must be able to set come out. Refuses
others.

A capability makes a program more than its user, as a setuid bit does, which archives always kept: neither
works in a workspace, where no program gains privileges (docs/adr/0009).
"""

import re
from collections.abc import Iterator, Mapping

from codehub.core.messages import Code
from codehub.ports.archives import Attribute

ACCESS, DEFAULT = b"SCHILY.acl.access", b"SCHILY.acl.default"
CAPABILITY = b"SCHILY.xattr.security.capability"
OF_USERS = b"SCHILY.xattr.user."

# tar writes the names that it finds in /etc/passwd, which may mean other users on another machine. So it runs
# where there is no such file.
_NAME = re.compile(rb"^(?:user|group):[^\d:\n][^:\n]*:", re.MULTILINE)
_RIGHTS = rb"[r-][w-][x-]\n"
_ACL = re.compile(
    rb"user::%(rights)s(?:user:\d+:%(rights)s)*group::%(rights)s(?:group:\d+:%(rights)s)*(?:mask::%(rights)s)?other::%(rights)s"
    % {b"rights": _RIGHTS}
)
# How the kernel shows a user that does not exist in a user namespace. No file can be given to it.
_UNMAPPED_ID = b":4294967295:"
# How long each revision of it is, which its fourth byte names.
_CAPABILITY_BYTES = {b"\x01": 12, b"\x02": 20, b"\x03": 24}


class RefusedAttribute(Exception):
    """No file of a home has this, or none that was archived as it
    must be. The code takes the file's path as a fact.
    """

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


def attributes_of(
    records: Mapping[bytes, bytes], *, is_file: bool, is_directory: bool
) -> Iterator[Attribute]:
    """Yield the attributes that not every restore can set.
    Raises RefusedAttribute for what no home's file has.
    """
    access, default = records.get(ACCESS), records.get(DEFAULT)
    if access is not None or default is not None:
        if not is_directory and (default is not None or not is_file):
            raise RefusedAttribute(Code.ATTRIBUTE_MALFORMED)
        if _UNMAPPED_ID in (access or b"") + (default or b""):
            raise RefusedAttribute(Code.ACL_OF_UNKNOWN)
        if _NAME.search((access or b"") + (default or b"")):
            raise RefusedAttribute(Code.ACL_BY_NAME)
        # tar writes both of a directory, and an empty one where there is no default.
        if not _ACL.fullmatch(access or b"") or (default and not _ACL.fullmatch(default)):
            raise RefusedAttribute(Code.ATTRIBUTE_MALFORMED)
        yield Attribute.ACL
    if (capability := records.get(CAPABILITY)) is not None:
        if not is_file or len(capability) != _CAPABILITY_BYTES.get(capability[3:4]):
            raise RefusedAttribute(Code.ATTRIBUTE_MALFORMED)
        yield Attribute.CAPABILITY
