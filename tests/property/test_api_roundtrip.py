import io

from hypothesis import given
from hypothesis import strategies as st

from speccompact import api
from tests.archives import SLOT_TOKENS, Pipe, noise
from tests.fakes import FakeEngines, prose

PIECES = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(max_size=100).map(lambda text: text.encode("utf-16-le", "surrogatepass")),
    st.builds(prose, st.integers(0, 9000), st.integers(0, 9)),
    st.builds(noise, st.integers(0, 9000), st.integers(0, 9)),
    st.builds(lambda byte, size: bytes([byte]) * size, st.integers(0, 255), st.integers(0, 20_000)),
)
CONTENTS = st.lists(PIECES, max_size=6).map(b"".join)


@given(CONTENTS, st.integers(1, 9), st.none() | st.just(SLOT_TOKENS) | st.integers(16, 500))
def test_every_content_comes_back(content: bytes, level: int, slot_tokens: int | None) -> None:
    engines = FakeEngines()
    archive = api.compress(content, level=level, slot_tokens=slot_tokens, engines=engines)
    assert api.decompress(archive, engines=engines) == content
    info = api.inspect(archive)
    assert (info.content_bytes, info.compressed_bytes, info.level) == (len(content), len(archive), level)
    assert len(archive) <= len(content) * 1.001 + 100


@given(CONTENTS, CONTENTS, st.integers(0, 60_000), st.integers(0, 60_000), st.booleans())
def test_every_range_of_concatenated_archives(
    first: bytes, second: bytes, start: int, length: int, seekable: bool
) -> None:
    engines = FakeEngines()
    archive = b"".join(api.compress(part, slot_tokens=SLOT_TOKENS, engines=engines) for part in (first, second))
    content = first + second
    target = io.BytesIO()
    source = io.BytesIO(archive) if seekable else Pipe(archive, 1000)
    api.decompress_stream(source, target, engines=engines, byte_range=(start, length))  # type: ignore[arg-type]
    assert target.getvalue() == content[start : start + length]
    with api.open(io.BytesIO(archive), engines=engines) as reader:
        reader.seek(start)
        assert reader.read(length) == content[start : start + length]
