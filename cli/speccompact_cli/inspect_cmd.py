"""``speccompact inspect``."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

import speccompact
from speccompact.errors import ArgumentError
from speccompact.options import DrafterName
from speccompact_cli.console import Console
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.file_jobs import for_each
from speccompact_cli.files import open_source
from speccompact_cli.naming import STANDARD, shown
from speccompact_cli.remote import Remote, open_client, remote_options
from speccompact_cli.reports import describe_drafts, naming_the_need
from speccompact_cli.shared_options import drafter_options, files_argument, make_options, running_options

if TYPE_CHECKING:
    from speccompact.client import Client
    from speccompact.streams.inspecting import FileInfo


@click.command("inspect")
@files_argument(required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each FILE, on a line of its own.")
@click.option("-v", "--verbose", is_flag=True, help="List every frame.")
@click.option("--stats", is_flag=True, help="Decode it, too, and say what drafts came to.")
@running_options
@drafter_options
@remote_options
def inspect_command(
    files: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    stats: bool,
    threads: int,
    device: str,
    drafter: DrafterName,
    drafter_file: str,
    remote: Remote,
) -> int:
    """Show what each FILE holds and what it needs, without decoding it unless --stats asks for that."""
    options = make_options(threads, device, drafter=drafter, drafter_file=drafter_file)
    if not stats:
        _refuse_unused(click.get_current_context())
    if stats and STANDARD in files:
        raise ArgumentError("--stats reads a file twice; name one")

    def inspect_one(path: str) -> int:
        with open_source(path) as source:
            if client is not None:
                info = client.inspect(source.stream, timeout=remote.timeout)
            else:
                info = speccompact.inspect(source.stream)
        decoded = None
        if stats:
            with naming_the_need(1), open_source(path) as source:
                decoded = speccompact.verify_stream(source.stream, options=options)
        if as_json:
            effort = {"effort": decoded.effort.to_json()} if decoded is not None else {}
            click.echo(json.dumps({"path": path} | info.to_json() | effort))
        else:
            lines = [shown(path), *_summary_lines(info, _model_names(client)), *(_frame_lines(info) if verbose else [])]
            click.echo("\n".join(lines + ([describe_drafts(decoded)] if decoded is not None else [])))
        return SUCCESS

    with open_client(remote, ("stats", "threads", "device", "drafter", "drafter_file")) as client:
        return for_each(files, Console(), inspect_one)


def _refuse_unused(context: click.Context) -> None:
    """Refuse options of decoding where nothing is decoded.

    Raises:
        ArgumentError: naming the first one.
    """
    for name in ("threads", "device", "drafter", "drafter_file"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise ArgumentError(f"--{name.replace('_', '-')} is about decoding; inspect decodes with --stats alone")


def _summary_lines(info: "FileInfo", names: Mapping[str, str]) -> list[str]:
    models = [f"{names.get(digest, 'not in the store')} ({digest})" for digest in info.model_digests]
    exact = sorted({part.exact_version for part in info.parts if part.exact_version is not None})
    memory = sorted({part.memory_version for part in info.parts if part.memory_version is not None})
    kinds = [
        f"{sum(getattr(frame, f'{kind}_slots') for frame in info.frames)} {kind}" for kind in ("model", "zstd", "raw")
    ]
    return [
        f"  format      version {info.format_version}"
        + "".join(f", exact version {number}" for number in exact)
        + "".join(f", memory version {number}" for number in memory),
        f"  model       {', '.join(models) or 'none needed'}",
        f"  level       {info.level or 'not recorded'}",
        f"  parts       {len(info.parts)}",
        f"  frames      {len(info.frames)}",
        f"  groups      {info.groups}" if memory else "  groups      no memory",
        f"  slots       {info.slots}: {', '.join(kinds)}",
        f"  tokens      {info.tokens}",
        f"  content     {info.content_bytes} bytes",
        f"  compressed  {info.compressed_bytes} bytes, {info.bpb:.3f} bpb;"
        f" {info.compressed_bytes - info.payload_bytes} of them headers, tables and checks",
    ]


def _frame_lines(info: "FileInfo") -> list[str]:
    lines = ["  part frame     offset      bytes content from      bytes  slots  tokens"]
    for frame in info.frames:
        slots = frame.model_slots + frame.zstd_slots + frame.raw_slots
        mark = "+" if frame.goes_on else " "
        lines.append(
            f"  {frame.part:>4}{mark}{frame.ordinal:>5} {frame.offset:>10} {frame.compressed_bytes:>10}"
            f" {frame.content_start:>12} {frame.content_bytes:>10} {slots:>6} {frame.tokens:>7}"
        )
    return lines


def _model_names(client: "Client | None") -> dict[str, str]:
    """Return the names of the store's models, or of the service's, by the part of their digest that archives record."""
    from speccompact.modelstore.store import MIN_PREFIX_BYTES, list_models  # loads NumPy

    if client is not None:
        return {model.digest[: 2 * MIN_PREFIX_BYTES]: shown(model.name) for model in client.models()}

    return {model.digest[:MIN_PREFIX_BYTES].hex(): ", ".join(model.names) or "unnamed" for model in list_models()}
