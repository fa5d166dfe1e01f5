"""Where the service listens: nowhere beyond loopback unless it is told to."""

import ipaddress

from speccompact.errors import ArgumentError


def split_address(text: str, setting: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT"; an IPv6 host stands in brackets.

    Raises:
        ArgumentError: naming the setting.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise ArgumentError(f'{setting} is "{text}"; give HOST:PORT, with an IPv6 host in brackets')
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ArgumentError(f'{setting} is "{text}"; give a port from 0 to 65535')
    return host[1:-1] if bracketed else host, int(port)


def join_address(host: str, port: int) -> str:
    """Return "HOST:PORT": the inverse of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host; of names, localhost alone is believed."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_binding(text: str, setting: str, *, insecure: bool, tls: bool) -> tuple[str, int]:
    """Return host and port, after a look at who can reach them.

    Args:
        insecure: whether the user has allowed what lies beyond loopback without TLS.
        tls: whether TLS protects this address.

    Raises:
        ArgumentError: it lies beyond loopback, is not protected, and was not allowed.
    """
    host, port = split_address(text, setting)
    if not (tls or insecure or is_loopback(host)):
        raise ArgumentError(
            f'{setting} is "{text}", which others can reach without TLS; listen on 127.0.0.1, or set insecure_bind'
            + (", or give tls_certificate and tls_key" if setting == "listen" else "")
        )
    return host, port
