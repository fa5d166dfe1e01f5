"""Log lines in JSON: one object a line, with the time, the level, what happened, and what belongs to it."""

import datetime
import json
import logging
import sys
from typing import Any, TextIO

from speccompact_grpc.interception import PassiveStage, ServedCall

LOGGER = "speccompact.service"


class JsonFormatter(logging.Formatter):
    """Makes a line of a record; `extra={"fields": {...}}` adds to it. Tracebacks are one text in the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line end."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logging(level: str, stream: TextIO | None = None) -> logging.Handler:
    """Let everything that is logged in this process become JSON lines on a stream; None for standard error.

    Returns:
        The handler, for `logging.getLogger().removeHandler`.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)  # of libraries, only what somebody should look at
    logging.getLogger("speccompact").setLevel(level.upper())
    return handler


class CallLog(PassiveStage):
    """One line for every call that is over, however it ended."""

    def __init__(self) -> None:
        """Bind the logger."""
        self._log = logging.getLogger(LOGGER)

    def end(self, call: ServedCall) -> None:
        """Write the line."""
        fields = {
            "request_id": call.request_id,
            "rpc": call.method,
            "code": call.code,
            "caller": call.caller.name,
            "peer": call.context.peer(),
            "seconds": round(call.seconds, 4),
            "bytes_in": call.received,
            "bytes_out": call.sent,
        }
        self._log.info("call", extra={"fields": fields})
