"""``speccompact bench``: the measurement lives in ``speccompact.bench``; this prints it."""

import json

import click

from speccompact.modelstore.registry import DEFAULT_MODEL
from speccompact.options import DrafterName
from speccompact.params import DEFAULT_LEVEL
from speccompact_cli.bench_table import bench_lines
from speccompact_cli.exit_codes import SUCCESS
from speccompact_cli.naming import shown
from speccompact_cli.progress import Activity
from speccompact_cli.shared_options import (
    coding_options,
    drafter_options,
    files_argument,
    make_console,
    make_options,
    quiet_option,
    running_options,
)


@click.command("bench")
@files_argument(required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; its keys are a stable contract.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Runs; medians are reported.")
@click.option("--peers/--no-peers", default=True, show_default=True, help="Run other compressors on the same files.")
@click.option("--decode/--no-decode", default=True, show_default=True, help="Decompress and compare, too.")
@coding_options
@running_options
@drafter_options
@quiet_option
def bench_command(
    files: tuple[str, ...],
    as_json: bool,
    repeat: int,
    peers: bool,
    decode: bool,
    level: int | None,
    model: str | None,
    slot_tokens: int | None,
    group: int | None,
    threads: int,
    device: str,
    drafter: DrafterName,
    drafter_file: str,
    quiet: bool,
) -> int:
    """Measure size and speed on each FILE after a verified round trip, beside other compressors.

    With --no-decode only sizes and the speed of compressing are measured, and nothing is verified.
    """
    from speccompact.bench.measure import Setting, bench  # loads the whole library: only when it runs
    from speccompact.bench.peers import available_peers

    setting = Setting(
        level=DEFAULT_LEVEL if level is None else level,
        model=model or DEFAULT_MODEL,
        slot_tokens=slot_tokens,
        group_frames=group,
        options=make_options(threads, device, drafter=drafter, drafter_file=drafter_file),
    )
    with Activity(make_console(quiet)) as activity:
        report = bench(
            files,
            setting,
            repeat=repeat,
            decode=decode,
            peers=available_peers() if peers else (),
            watch=lambda words: activity.show(shown(words)),
        )
    entries = report.to_json()
    click.echo(json.dumps(entries, indent=2) if as_json else "\n".join(bench_lines(entries)))
    return SUCCESS
