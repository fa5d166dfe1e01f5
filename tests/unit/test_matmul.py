from collections.abc import Iterator

import pytest
import torch

from speccompact.exact import matmul, vectors
from speccompact.exact.matmul import carrier_matmul, int_matmul
from speccompact.exact.vnniproduct import PackedProduct
from tests.hostile_integers import hostile_rows

PRODUCTS = [int_matmul, carrier_matmul]


def wanted(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int64) @ weight.to(torch.int64).t()


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("inner", [1, 3, 48, 80, 1023, 1024, 1025, 1536, 2500])
def test_products_are_exact_on_hostile_values(product: object, inner: int) -> None:
    x = hostile_rows(inner, 127, torch.int8, seed=1)
    weight = hostile_rows(inner, 127, torch.int8, seed=2)
    found = product(x, weight)  # type: ignore[operator]
    assert found.dtype == torch.int32
    assert torch.equal(found.to(torch.int64), wanted(x, weight))


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65])
@pytest.mark.parametrize("outputs", [1, 2, 9, 64])
def test_every_shape_gives_the_same_rows(product: object, rows: int, outputs: int) -> None:
    x = hostile_rows(576, 127, torch.int8)[-1:].repeat(rows, 1)
    x[:, ::3] = 127
    weight = torch.full((outputs, 576), -127, dtype=torch.int8)
    weight[::2] = 127
    assert torch.equal(product(x, weight).to(torch.int64), wanted(x, weight))  # type: ignore[operator]


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_longest_sums_fit(product: object) -> None:
    x = torch.full((2, 131071), 127, dtype=torch.int8)
    x[1] = -127
    weight = torch.full((3, 131071), 127, dtype=torch.int8)
    found = product(x, weight)  # type: ignore[operator]
    assert found.tolist() == [[131071 * 127**2] * 3, [-131071 * 127**2] * 3]


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_part_of_a_larger_tensor(product: object) -> None:
    base = hostile_rows(64, 127, torch.int8)
    x, weight = base[:40:3, 8:40], base[5:21, 16:48]
    assert torch.equal(product(x, weight).to(torch.int64), wanted(x, weight))  # type: ignore[operator]


def layouts(matrix: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the same (rows, columns) in every order of memory, and with every stride that an axis of one may have."""
    rows, columns = matrix.shape
    yield matrix
    yield matrix.t().contiguous().t()
    yield torch.nn.functional.pad(matrix, (3, 2, 1, 1))[1 : 1 + rows, 3 : 3 + columns]
    yield torch.nn.functional.pad(matrix.t(), (3, 2, 1, 1))[1 : 1 + columns, 3 : 3 + rows].t()
    if rows == 1:
        yield from (torch.as_strided(matrix.contiguous(), matrix.shape, (stride, 1)) for stride in (0, 1, 7, 64))
    if columns == 1:
        yield from (torch.as_strided(matrix.contiguous(), matrix.shape, (1, stride)) for stride in (0, 1, 7, 64))


@pytest.mark.parametrize("product", [int_matmul, matmul._padded_for_cuda])
@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("inner", [1, 2, 64, 577])
@pytest.mark.parametrize("outputs", [1, 6, 64])
def test_weights_may_lie_in_any_order(product: object, rows: int, inner: int, outputs: int) -> None:
    whole = hostile_rows(700, 127, torch.int8)
    x, matrix = whole[:rows, :inner].contiguous(), whole.t()[:inner, -outputs:].contiguous()
    right = x.to(torch.int64) @ matrix.to(torch.int64)
    for one in layouts(x):
        for other in layouts(matrix):
            found = product(one, other.t())  # type: ignore[operator]
            assert found.dtype == torch.int32
            assert torch.equal(found.to(torch.int64), right)


def test_without_exact_units_floats_carry_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_native_is_exact", lambda: False)
    monkeypatch.setattr(torch, "_int_mm", None)
    x, weight = hostile_rows(577, 127, torch.int8), hostile_rows(577, 127, torch.int8, seed=5)
    right = wanted(x, weight).to(torch.int32)
    assert torch.equal(int_matmul(x, weight), right)


def saturating(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A product as 8-bit units have it that add pairs in 16 bits."""
    pairs = x.to(torch.int64)[:, :, None] * weight.t().to(torch.int64)
    return (pairs[:, ::2] + pairs[:, 1::2]).clamp(-32000, 32000).sum(1)


def test_products_that_are_not_exact_are_found_out() -> None:
    def wrong_for_single_rows(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return wanted(x, weight) + (x.shape[0] == 1)

    def missing(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        raise RuntimeError

    assert matmul._keeps_extremes(wanted)
    for product in (saturating, wrong_for_single_rows, missing):
        assert not matmul._keeps_extremes(product)


@pytest.mark.parametrize("way", [matmul._Packed, matmul._PackedShifted])
@pytest.mark.parametrize("rows", [1, 2, 17, 64])
def test_packed_weights_are_exact_where_they_are_used(way: type[matmul._Packed], rows: int) -> None:
    if not matmul._keeps_extremes(lambda x, weight: way(weight)(x)):
        pytest.skip("not exact on this CPU, and not used")
    x = hostile_rows(576, 127, torch.int8, seed=1)[-rows:]
    weight = hostile_rows(576, 127, torch.int8, seed=2)
    assert torch.equal(way(weight)(x).to(torch.int64), wanted(x, weight))


@pytest.mark.parametrize("slow", [matmul._Packed, matmul._PackedShifted])
def test_the_faster_packing_is_taken(slow: type[matmul._Packed], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_nanoseconds", lambda way: int(way is slow))
    monkeypatch.setattr(matmul, "_keeps_extremes", lambda product: True)
    found = matmul._packing.__wrapped__()
    assert found is not slow
    assert found in (matmul._Packed, matmul._PackedShifted)


def test_a_packing_that_is_not_exact_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_keeps_extremes", lambda product: False)
    assert matmul._packing.__wrapped__() is None


@pytest.mark.parametrize(
    ("rows", "outputs", "inner"), [(1, 1, 1), (5, 63, 577), (6, 64, 576), (7, 65, 4), (13, 130, 1537)]
)
def test_own_kernel_is_exact_on_hostile_values(rows: int, outputs: int, inner: int) -> None:
    if not vectors.available():
        pytest.skip("not for this CPU")
    x, weight = hostile_rows(inner, 127, torch.int8, seed=1), hostile_rows(inner, 127, torch.int8, seed=2)
    x = x.repeat(-(-rows // len(x)), 1)[:rows]
    weight = weight.repeat(-(-outputs // len(weight)), 1)[:outputs]
    found = PackedProduct(weight)(x)
    assert found.dtype == torch.int32
    assert found.is_contiguous()
    assert torch.equal(found.to(torch.int64), wanted(x, weight))


def test_own_kernel_bears_the_longest_sums() -> None:
    if not vectors.available():
        pytest.skip("not for this CPU")
    x = torch.full((2, 131071), 127, dtype=torch.int8)
    x[1] = -127
    weight = torch.full((3, 131071), 127, dtype=torch.int8)
    assert PackedProduct(weight)(x).tolist() == [[131071 * 127**2] * 3, [-131071 * 127**2] * 3]


@pytest.mark.parametrize(("vnni", "amx", "own"), [(True, False, True), (True, True, False), (False, False, False)])
def test_own_kernel_is_for_cpus_without_matrix_units(
    vnni: bool, amx: bool, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "available", lambda: vnni)
    monkeypatch.setattr(vectors, "matrix_units", lambda: amx)
    assert isinstance(matmul.prepare(torch.ones(3, 5, dtype=torch.int8), 5), PackedProduct) == own
