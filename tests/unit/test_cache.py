import torch

from speccompact.exact.cache import Cache, Rows, Span
from tests.exact_inputs import weights


def test_rows_are_the_spans_one_after_the_other() -> None:
    rows = Rows.of([Span(2, 5, 3), Span(0, 0, 1), Span(1, 7, 2)])
    assert rows.place.tolist() == [2, 2, 2, 0, 1, 1]
    assert rows.position.tolist() == [5, 6, 7, 0, 7, 8]
    assert rows.offsets == (0, 3, 4)


def test_a_cache_is_as_large_as_the_weights_say() -> None:
    cache = Cache(weights(), places=3, capacity=10)
    parts = [*cache.keys, *cache.values, *cache.key_scales, *cache.value_scales]
    assert (
        sum(part.numel() * part.element_size() for part in parts)
        == 3 * cache.capacity * weights().cache_bytes_per_token
    )
    assert cache.capacity >= 10
    assert {part.dtype for part in cache.keys + cache.values} == {torch.int8}
