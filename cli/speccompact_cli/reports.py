"""What a finished run looks like in words."""

from speccompact.streams.summary import Summary


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
        lines.append(f"  {summary.tokens} tokens, {summary.passes} target passes{rate}")
    if summary.ideal_bits:
        lines.append(
            f"  {summary.ideal_bits / 8:.0f} bytes by the model's distribution,"
            f" {summary.payload_bytes} in payloads, {summary.compressed_bytes} in all"
        )
    return "\n".join(lines)
