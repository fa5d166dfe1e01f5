"""What is built and installed is what the tree holds."""

import tomllib

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
    names = {name.partition(">")[0] for name in wanted if not name.startswith("speccompact")}
    assert names <= set(pins)
