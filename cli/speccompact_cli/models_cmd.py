"""``speccompact models``: what is in the store, and how it gets there.

The store's modules load NumPy, so they are imported when a command runs, not when its help is read.
"""

import json

import click

from speccompact.modelstore.registry import DEFAULT_MODEL, REGISTRY
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.naming import shown
from speccompact_cli.progress import StageProgress, amount
from speccompact_cli.shared_options import make_console

_DIGITS = 16
"""Hexadecimal digits of a digest that are shown: what an archive's header holds of it."""


@click.group("models")
def models_command() -> None:
    """List, fetch and convert models."""


@models_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> int:
    """List the models of the store, and those that can be pulled."""
    from speccompact.modelstore.store import list_models

    rows = [
        {
            "name": name,
            "digest": model.digest.hex(),
            "bytes": model.size,
            "source": model.source,
            "path": str(model.path),
        }
        for model in list_models()
        for name in model.names or ("",)
    ]
    here = {row["name"] for row in rows}
    absent = [entry for entry in REGISTRY.values() if entry.name not in here]
    rows += [
        {"name": entry.name, "digest": entry.exact_digest, "bytes": None, "source": entry.source, "path": None}
        for entry in absent
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return SUCCESS
    for row in rows:
        size, digest = row["bytes"], row["digest"]
        state = "not pulled" if not isinstance(size, int) else amount(size)
        start = digest[:_DIGITS] if isinstance(digest, str) else "-"
        mark = "  (default)" if row["name"] == DEFAULT_MODEL else ""
        click.echo(f"{row['name'] or '-':<24} {start:<{_DIGITS}} {state:>10}  {shown(str(row['source']))}{mark}")
    return SUCCESS


@models_command.command("pull")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def pull_command(names: tuple[str, ...], quiet: bool) -> int:
    """Fetch models and convert them; NAME is one of ``models list`` or hf:OWNER/NAME. What is there stays."""
    from speccompact.modelstore.pull import pull

    console = make_console(quiet, verbose=False)
    for name in names:
        progress = StageProgress(console, shown(name))
        try:
            model = pull(name, progress=progress)
        finally:
            progress.close()
        entry = REGISTRY.get(name)
        terms = f", licence of the weights {entry.licence}" if entry else ""
        there = "there already, " if progress.idle else ""
        console.note(f"{shown(name)}: {there}{amount(model.size)}, digest {model.digest.hex()[:_DIGITS]}{terms}")
    return SUCCESS


@models_command.command("convert")
@click.argument("path", metavar="PATH|NAME")
@click.option("--adapter", metavar="FILE", help="Adapter to merge in: a file of `train adapter`, or a folder of peft.")
@click.option("--name", metavar="NAME", help="Name in the store [default: made from the file's name].")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def convert_command(path: str, adapter: str | None, name: str | None, quiet: bool) -> int:
    """Convert a float checkpoint to an exact model: a GGUF file, a folder of safetensors, or that of a model NAME of
    `models list`.
    """
    from speccompact.modelstore.pull import convert_path

    console = make_console(quiet, verbose=False)
    progress = StageProgress(console, shown(path))
    try:
        model = convert_path(path, name, adapter=adapter, progress=progress)
    finally:
        progress.close()
    console.note(f"{', '.join(model.names)}: {amount(model.size)}, digest {model.digest.hex()[:_DIGITS]}")
    return SUCCESS


@models_command.command("path")
@click.argument("name", required=False)
def path_command(name: str | None) -> int:
    """Print where a model's exact file lies, or without NAME where the store is."""
    from speccompact.modelstore.store import find, store_dir

    click.echo(shown(store_dir() if name is None else find(name).path))
    return SUCCESS
