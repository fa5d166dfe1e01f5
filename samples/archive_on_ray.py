"""Archive a tree with the workers of a Ray cluster: the same archive as on one machine.

    ray start --head                                  # on one machine
    ray start --address=HEAD:6379                     # on the others
    python samples/archive_on_ray.py ray://HEAD:10001 corpus.spca s3://bucket/corpus

Every machine needs speccompact[ray], the model in its store (`speccompact models pull`), and the sources under the same
names: a shared file system, or a URL.
"""

import sys

from speccompact import Options, archive


def tell(event: archive.Event) -> None:
    """Print a line for each group."""
    if event.name == "group":
        values = event.values
        print(f"group {values['number']!r}: {values['content_bytes']!r} -> {values['payload_bytes']!r} bytes")


def main(engine: str, output: str, *sources: str) -> int:
    """Make the archive and return an exit code."""
    executor = archive.make_executor(engine, Options(threads=4))  # CPUs of a worker
    summary = archive.create(output, archive.Request(sources, level=5), executor=executor, listener=tell)
    print(f"{summary.entries} entries, {summary.bpb:.3f} bpb, {len(summary.left_out)} left out")
    return 6 if summary.left_out else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
