"""Certificates go in as bytes, what secures a connection comes
out. Refuses what is no certificate, by its name.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from codehub.adapters.kubernetes.kubeconfig import AccessRefused


def make_context(authority: bytes | None, certificate: bytes | None, key: bytes | None) -> ssl.SSLContext:
    """Return a context that trusts this authority alone; without one, those that the machine trusts."""
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise AccessRefused(f"certificate-authority holds no certificate: {error}") from None
    # Newer Pythons demand extensions that the authorities of many clusters don't have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None and key is not None:
        try:
            # The key comes from memory, and stays there: a file of it
            # would have to be removed however this ends.
            with _in_memory(certificate) as chain_file, _in_memory(key) as key_file:
                context.load_cert_chain(chain_file, key_file, password=_refuse_password)
        except (ssl.SSLError, OSError) as error:
            raise AccessRefused(f"client-certificate and client-key don't make a pair: {error}") from None
    return context


def _refuse_password() -> str:
    raise AccessRefused("client-key is encrypted, and nobody is there to be asked for its password")


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yield a path to this content, which is on no disk."""
    fd = os.memfd_create("codehub", os.MFD_CLOEXEC)
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
