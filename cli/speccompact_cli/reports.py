"""What a finished run, or a failed one, looks like in words."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from speccompact.errors import LimitError
from speccompact.streams.summary import LostRange, Summary
from speccompact_cli.console import Console
from speccompact_cli.exit_codes import describe
from speccompact_cli.naming import shown


def describe_work(summary: Summary, seconds: float) -> str:
    """Return the lines that -v adds: frames, slots by kind, tokens, rates.

    Args:
        summary: totals of the run.
        seconds: how long it took, the loading of the model included.
    """
    lines = [
        f"  {summary.frames} frames, {summary.slots} slots:"
        f" {summary.model_slots} model, {summary.zstd_slots} zstd, {summary.raw_slots} raw"
    ]
    if summary.tokens:
        rate = f", {summary.tokens / seconds:.0f} tokens/s" if seconds > 0 else ""
        per_pass = f", {summary.tokens / summary.passes:.2f} tokens per pass" if summary.passes else ""
        lines.append(f"  {summary.tokens} tokens{per_pass}{rate}")
    if summary.ideal_bits:
        lines.append(
            f"  {summary.ideal_bits / 8:.0f} bytes by the model's distribution,"
            f" {summary.payload_bytes} in payloads, {summary.compressed_bytes} in all"
        )
    return "\n".join(lines)


def describe_drafts(summary: Summary) -> str:
    """Return a table of what drafts came to: tokens per pass, and acceptance by drafter and position."""
    effort = summary.effort
    per_pass = summary.tokens / summary.passes if summary.passes else 0.0
    lines = [
        f"  {summary.tokens} tokens in {summary.passes} passes: {per_pass:.2f} tokens per pass;"
        f" {effort.target_s:.2f} s in the model, {effort.draft_s:.2f} s in drafting"
    ]
    lines += [f"  {note}" for note in effort.notes]
    for name, made in effort.drafts.items():
        lines.append(f"  {name}: {sum(made.right)} of {sum(made.proposed)} drafted tokens were right")
        lines.append("    position   drafts  reached  right")
        for position, counts in enumerate(zip(made.proposed, made.reached, made.right, strict=True), 1):
            proposed, reached, right = counts
            lines.append(f"    {position:8} {proposed:8} {reached:8} {right / reached if reached else 0.0:6.0%}")
    return "\n".join(lines)


def describe_salvage(summary: Summary) -> str:
    """Return how much a salvage saved, of how much where that is known."""
    lost = [None if gap.stop is None else gap.stop - gap.start for gap in summary.lost]
    if None in lost:
        return f"saved {summary.content_bytes} bytes"
    return f"saved {summary.content_bytes} of {summary.content_bytes + sum(filter(None, lost))} bytes"


def describe_loss(lost: LostRange) -> str:
    """Return one line about a range that a salvage could not recover."""
    if lost.stop == lost.start:
        return f"damage at byte {lost.start} took no content: {lost.reason}"
    stop = "an unknown end" if lost.stop is None else str(lost.stop)
    return f"lost bytes {lost.start} to {stop}: {lost.reason}"


@contextmanager
def naming_the_need(parallel: int) -> Iterator[None]:
    """Say what decoding needs where memory is short: the writer has chosen it, a level is of no help.

    Args:
        parallel: groups that are decoded at once.

    Raises:
        LimitError: in place of MemoryError.
    """
    try:
        yield
    except MemoryError:
        need = "out of memory; a group of frames takes up to 3.8 GB to decode with the default model"
        fewer = f", and --parallel {parallel} takes that {parallel} times; choose less" if parallel > 1 else ""
        raise LimitError(need + fewer) from None


def report_failure(console: Console, error: BaseException, name: str = "") -> None:
    """Say in one line what failed; with SPECCOMPACT_DEBUG set, also where in the program.

    Args:
        console: where to say it.
        error: what ended the work.
        name: what was worked on, safe to print; put in front unless the error itself begins with it.
    """
    if os.environ.get("SPECCOMPACT_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
    text = describe(error)
    console.error(text if not name or text.startswith(name) else f"{name}: {text}")


def held_out_lines(result: dict[str, Any]) -> list[str]:
    """Return the table of what training has brought, by kind of held-out text."""
    lines = [f"{'kind':<28} {'bpb before':>10} {'after':>8} {'change':>9}"]
    for kind, row in result["held_out"].items():
        lines.append(
            f"{shown(kind):<28} {row['start_bpb']:>10.4f} {row['end_bpb']:>8.4f} {row['change_percent']:>+8.2f}%"
        )
    lines.append(f"{'mean':<28} {'':>10} {'':>8} {result['mean_change_percent']:>+8.2f}%")
    return lines
