import pytest
import torch

from speccompact.exact.matmul import carrier_matmul, int_matmul
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
