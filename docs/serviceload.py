"""Measure the service against what it has to reach. See docs/service.md.

    python -m docs.serviceload batching                 # 64 callers with 2 KB texts, one large text, one caller
    python -m docs.serviceload latency                  # how long a small text takes at half that load
    python -m docs.serviceload hostile --seconds 600    # 200 callers of whom a third behaves badly
    python -m docs.serviceload slow                     # a caller that does not read what it asked for
    python -m docs.serviceload fuzz --calls 10000       # requests that no client would send

Each starts a server process of its own on the loopback interface and prints one JSON object.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from docs.servicecrowd import batching, hostile, latency, slow_reader
from docs.servicefuzz import Fuzzer
from docs.serviceprobe import Server, calling, server_process, texts
from speccompact_grpc.v1 import speccompact_pb2 as pb


def fuzz(server: Server, calls: int, threads: int, seed: int) -> dict[str, Any]:
    """Return what came back from requests that no client would send, and whether the server still serves."""
    fuzzer = Fuzzer(server.address, seed)
    fuzzer.run(calls, threads)
    with calling(server.address) as stub:
        alive = bool(stub.CompressText(pb.CompressTextRequest(content=b"still there"), timeout=60).archive)
    codes: dict[str, int] = {}
    for (_, code), count in fuzzer.codes.items():
        codes[code] = codes.get(code, 0) + count
    return {"calls": sum(codes.values()), "codes": codes, "undocumented": fuzzer.undocumented(), "alive": alive}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["batching", "latency", "hostile", "slow", "fuzz"])
    parser.add_argument("--model", default="smollm2-135m", help="name or path of the model")
    parser.add_argument("--callers", type=int, help="at once [64; hostile: 200; fuzz: 8]")
    parser.add_argument("--text", type=Path, action="append", help="where texts come from [documents of this project]")
    parser.add_argument("--bytes", type=int, default=2048, help="of a text [2048]")
    parser.add_argument("--calls", type=int, help="of all callers [latency: 200; fuzz: 10000]")
    parser.add_argument("--seconds", type=float, default=600.0, help="of hostile [600]")
    parser.add_argument("--megabytes", type=int, default=256, help="of slow [256]")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").mkdir()
        (Path(folder) / "data" / "text").write_bytes(b"a text for jobs\n" * 40)
        jobs = ["--jobs", f"{folder}/jobs.sqlite", "--jobs-roots", f"{folder}/data"]
        with server_process(wanted.model, *jobs) as server:
            result = measure(server, wanted)
    json.dump({"what": wanted.what} | result, sys.stdout, indent=1)
    sys.stdout.write("\n")


def measure(server: Server, wanted: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one measurement."""
    pieces = texts(wanted.callers or 64, wanted.bytes, wanted.text or ())
    match wanted.what:
        case "batching":
            return batching(server, pieces)
        case "latency":
            return latency(server, pieces, wanted.calls or 200)
        case "hostile":
            return hostile(server, pieces[:32], wanted.callers or 200, wanted.seconds)
        case "slow":
            return slow_reader(server, wanted.megabytes, 0.01)
        case _:
            return fuzz(server, wanted.calls or 10_000, wanted.callers or 8, wanted.seed)


if __name__ == "__main__":
    main()
