"""Who can reach the service is decided before it listens."""

import pytest

from speccompact.errors import ArgumentError
from speccompact_grpc.binding import check_binding, is_loopback, join_address, split_address


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:50051", "localhost:65535"])
def test_addresses_are_taken_apart_and_put_together(text: str) -> None:
    assert join_address(*split_address(text, "listen")) == text


@pytest.mark.parametrize("text", ["", ":1", "host", "host:", "host:x", "host:65536", "::1:5", "host:-1", "host:²"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"^listen is "):
        split_address(text, "listen")


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("example.org", False), ("127.0.0.1.example.org", False)],
)  # fmt: skip
def test_loopback_is_told_from_the_rest(host: str, local: bool) -> None:
    assert is_loopback(host) == local


def test_beyond_loopback_takes_tls_or_a_wish() -> None:
    with pytest.raises(ArgumentError, match="insecure_bind, or give tls_certificate"):
        check_binding("0.0.0.0:1", "listen", insecure=False, tls=False)
    assert check_binding("0.0.0.0:1", "listen", insecure=False, tls=True) == ("0.0.0.0", 1)
    assert check_binding("0.0.0.0:1", "listen", insecure=True, tls=False) == ("0.0.0.0", 1)
    assert check_binding("[::1]:1", "metrics", insecure=False, tls=False) == ("::1", 1)
