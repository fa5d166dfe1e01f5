"""TLS of the service: certificates from PEM files, and mutual TLS where an authority of clients is named."""

from pathlib import Path

import grpc

from speccompact.errors import ArgumentError
from speccompact_grpc.serviceconfig import ServiceConfig


def server_credentials(config: ServiceConfig) -> grpc.ServerCredentials | None:
    """Return the credentials that the settings name; None without TLS.

    Raises:
        ArgumentError: a file is no PEM of what it should be.
        OSError: a file cannot be read.
    """
    if not config.tls_certificate:
        return None
    certificate = _pem(config.tls_certificate, "tls_certificate", b"CERTIFICATE")
    key = _pem(config.tls_key, "tls_key", b"PRIVATE KEY")
    if not config.tls_client_ca:
        return grpc.ssl_server_credentials([(key, certificate)])
    authority = _pem(config.tls_client_ca, "tls_client_ca", b"CERTIFICATE")
    return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)


def _pem(path: str, setting: str, label: bytes) -> bytes:
    content = Path(path).read_bytes()
    if b"-----BEGIN " not in content or label + b"-----" not in content:
        raise ArgumentError(f"{setting} is {Path(path).name}, which holds no {label.decode().lower()} in PEM")
    return content
