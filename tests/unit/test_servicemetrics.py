"""Numbers of the service: for Prometheus, and for the page."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from speccompact_grpc.liveload import LiveLoad
from speccompact_grpc.observing import Observer, Pass, Several, Silent
from speccompact_grpc.servicemetrics import MetricsPort, PrometheusMetrics

DONE = Pass("tiny", slots=6, places=8, encoded=32, decoding=2, decoded=6, seconds=0.25, drafted=8, accepted=4)


def work(observer: Observer) -> None:
    """Tell one of everything."""
    observer.began("CompressText")
    observer.began("Compress")
    observer.received("CompressText", 100)
    observer.sent("CompressText", 40)
    observer.waiting("tiny", 3)
    observer.passed(DONE)
    observer.ended("CompressText", "OK", 0.3)
    observer.jobs({"queued": 2, "running": 1})


def fetched(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_fetches_what_was_told() -> None:
    metrics = PrometheusMetrics()
    port = MetricsPort(metrics, "127.0.0.1", 0)
    try:
        work(Several([metrics, Silent()]))
        values = fetched(port.port)
    finally:
        port.close()
    model, rpc = ("model", "tiny"), ("rpc", "CompressText")
    assert values["speccompact_calls_total", (("code", "OK"), rpc)] == 1
    assert values["speccompact_calls_running", (rpc,)] == 0
    assert values["speccompact_calls_running", (("rpc", "Compress"),)] == 1
    assert values["speccompact_received_bytes_total", (rpc,)] == 100
    assert values["speccompact_sent_bytes_total", (rpc,)] == 40
    assert values["speccompact_call_seconds_bucket", (("le", "0.5"), rpc)] == 1
    assert values["speccompact_call_seconds_bucket", (("le", "0.25"), rpc)] == 0
    assert values["speccompact_queue_slots", (model,)] == 3
    assert values["speccompact_batch_fill_bucket", (("le", "0.8"), model)] == 1
    assert values["speccompact_batch_fill_bucket", (("le", "0.7"), model)] == 0
    assert values["speccompact_tokens_total", (model, ("way", "compress"))] == 32
    assert values["speccompact_tokens_total", (model, ("way", "decompress"))] == 6
    assert values["speccompact_slot_passes_total", (model, ("way", "compress"))] == 4
    assert values["speccompact_slot_passes_total", (model, ("way", "decompress"))] == 2
    assert values["speccompact_tokens_per_pass_sum", (model,)] == 3
    assert values["speccompact_accepted_tokens_total", (model,)] == 4
    assert values["speccompact_jobs", (("state", "queued"),)] == 2


def test_the_load_is_that_of_the_last_seconds() -> None:
    load = LiveLoad()
    work(Several([load]))
    load.ended("Compress", "CANCELLED", 1.0)
    ((when, _),) = load._passes
    now = load.now(when + 0.75)
    assert (now.calls, now.waiting_slots, now.calls_done, now.calls_failed) == (0, 3, 2, 1)
    assert (now.batch_fill, now.tokens_per_second) == (0.75, 38.0)
    assert (now.tokens_per_pass, now.acceptance) == (3.0, 0.5)
    later = load.now(when + 11)
    assert (later.batch_fill, later.tokens_per_second, later.tokens_per_pass, later.acceptance) == (0, 0, 0, 0)
    assert load.now(when).as_json().keys() == later.as_json().keys()
