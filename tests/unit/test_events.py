import io
import json

from speccompact.archive.events import Event, EventLog, JobSummary, silent


def test_each_event_is_a_line_of_json_written_at_once() -> None:
    stream = io.StringIO()
    log = EventLog(stream, iter([1.23456, 2.0]).__next__)
    log(Event("found", {"entries": 1, "path": b"a\n\xff"}))
    assert stream.getvalue().count("\n") == 1
    log(Event("done", {}))
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first == {"time": 1.235, "event": "found", "entries": 1, "path": "a\n\udcff"}
    assert second == {"time": 2.0, "event": "done"}


def test_values_do_not_hide_what_every_event_has() -> None:
    stream = io.StringIO()
    EventLog(stream, lambda: 1.0)(Event("group", {"time": 9, "event": "other"}))
    assert json.loads(stream.getvalue()) == {"time": 1.0, "event": "group"}


def test_bits_for_each_byte() -> None:
    assert JobSummary(1, 800, 800, 100, 1).bpb == 1.0
    assert JobSummary(1, 0, 0, 100, 1).bpb == 0.0
    silent(Event("done", {}))
