"""``speccompact models``: what is in the store, how it gets there, and how it goes.

The store's modules load NumPy, so they are imported when a command runs, not when its help is read.
"""

import json

import click

from speccompact.modelstore.registry import DEFAULT_MODEL, REGISTRY
from speccompact.quantities import amount
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.file_jobs import for_each
from speccompact_cli.naming import shown
from speccompact_cli.progress import StageProgress
from speccompact_cli.shared_options import make_console, verbosity_options

_DIGITS = 16
"""Hexadecimal digits of a digest that are shown: what an archive's header holds of it."""


@click.group("models")
def models_command() -> None:
    """List, fetch, convert, move and remove models."""


@models_command.command("list", short_help="Show what is in the store.")
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


@models_command.command("pull", short_help="Fetch models and convert them.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@verbosity_options
def pull_command(names: tuple[str, ...], quiet: bool, verbose: bool) -> int:
    """Fetch models and convert them; NAME is one of `models list` or hf:OWNER/NAME. What is there stays.

    Converting the default model takes about a minute on two cores; -v says which stage it is at where there is no
    terminal to draw on.
    """
    from speccompact.modelstore.pull import pull

    console = make_console(quiet, verbose)
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


@models_command.command("convert", short_help="Make a model of a checkpoint of your own.")
@click.argument("path", metavar="PATH|NAME")
@click.option("--adapter", metavar="FILE", help="Adapter to merge in: a file of `train adapter`, or a folder of peft.")
@click.option("--name", metavar="NAME", help="Name in the store [default: made from the file's name].")
@verbosity_options
def convert_command(path: str, adapter: str | None, name: str | None, quiet: bool, verbose: bool) -> int:
    """Convert a float checkpoint to an exact model: a GGUF file, a folder of safetensors, or that of a model NAME of
    `models list`.

    It takes about a minute on two cores for a model of the default one's size; -v says which stage it is at where there
    is no terminal to draw on.
    """
    from speccompact.modelstore.pull import convert_path

    console = make_console(quiet, verbose)
    progress = StageProgress(console, shown(path))
    try:
        model = convert_path(path, name, adapter=adapter, progress=progress)
    finally:
        progress.close()
    console.note(f"{', '.join(model.names)}: {amount(model.size)}, digest {model.digest.hex()[:_DIGITS]}")
    return SUCCESS


@models_command.command("import", short_help="Take in an exact model file from another machine.")
@click.argument("file", metavar="FILE")
@click.option("--name", metavar="NAME", help="Name in the store [default: none, archives need none].")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def import_command(file: str, name: str | None, quiet: bool) -> int:
    """Copy an exact model file into the store, checked first: one that `models path NAME` names on another machine.

    Archives that were made with the model there open here then. Doing it again changes nothing.
    """
    from speccompact.modelstore.importing import import_model

    console = make_console(quiet, verbose=False)
    model, there = import_model(file, name)
    digest = model.digest.hex()[:_DIGITS]
    what = ", ".join(model.names) or "a model without a name"
    console.note(f"{what}: {'there already, ' if there else ''}{amount(model.size)}, digest {digest}")
    return SUCCESS


@models_command.command("remove", short_help="Remove models from the store.")
@click.argument("names", metavar="NAME|DIGEST...", nargs=-1, required=True)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def remove_command(names: tuple[str, ...], quiet: bool) -> int:
    """Remove a name, and the model's file unless it has other names; by DIGEST, a model with all its names.

    Nothing is asked. Archives that were made with a removed model need it again before they can be opened.
    """
    from speccompact.modelstore.removing import remove_model

    console = make_console(quiet, verbose=False)

    def remove_one(name: str) -> int:
        gone = remove_model(name)
        digest = gone.digest[:_DIGITS]
        if gone.left:
            console.note(f"{shown(name)}: name removed; the model, digest {digest}, is still {', '.join(gone.left)}")
        elif gone.freed is None:
            console.note(f"{shown(name)}: name removed; the model, digest {digest}, was not here")
        else:
            console.note(
                f"{shown(name)}: removed, {amount(gone.freed)}; archives made with it need the digest {digest} again"
            )
        return SUCCESS

    return for_each(names, console, remove_one)


@models_command.command("path", short_help="Print where a model or the store is.")
@click.argument("name", metavar="[NAME|DIGEST]", required=False)
def path_command(name: str | None) -> int:
    """Print where a model's exact file lies, or without NAME where the store is."""
    from speccompact.modelstore.store import find, store_dir

    click.echo(shown(store_dir() if name is None else find(name).path))
    return SUCCESS
