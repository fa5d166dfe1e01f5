"""What is built and installed is what the tree holds."""

import tomllib

from speccompact.modelstore.download import file_sha256
from speccompact.modelstore.registered import ADAPTERS
from speccompact.modelstore.registry import REGISTRY
from tests.source_tree import ROOT, is_package, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_package_is_listed() -> None:
    packages = [module.name for module in modules().values() if is_package(module)]
    assert PROJECT["tool"]["setuptools"]["packages"] == sorted(packages)


def test_every_direct_dependency_is_pinned_and_torch_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert pins["torch"] == "2.13.0"
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(name for extra in extras.values() for name in extra)]
    names = {name.partition(">")[0].partition("[")[0] for name in wanted if not name.startswith("speccompact")}
    assert names <= set(pins)


def test_the_adapters_that_ship_are_those_that_are_pinned() -> None:
    assert ADAPTERS.relative_to(ROOT / "speccompact").as_posix() == "modelstore/adapters"
    assert "modelstore/adapters/*" in PROJECT["tool"]["setuptools"]["package-data"]["speccompact"]
    shipped = {path.stem: file_sha256(path) for path in ADAPTERS.glob("*.safetensors")}
    assert shipped == {name: model.adapter_sha256 for name, model in REGISTRY.items() if model.adapter_sha256}
    assert all(path.stat().st_size <= 12_000_000 for path in ADAPTERS.glob("*"))
