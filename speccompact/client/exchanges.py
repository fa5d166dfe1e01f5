"""One try of a streaming call, without the call: what is sent, what may be received, what must add up at the end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from speccompact.client.agreement import Agreement
from speccompact.client.conversion import from_summary
from speccompact.errors import FormatError, ServiceError
from speccompact.streams.summary import Progress, Summary
from speccompact_grpc.v1 import speccompact_pb2 as pb

Request = TypeVar("Request")
Answer = pb.CompressResponse | pb.DecompressResponse


@dataclass(frozen=True, slots=True)
class Plan(Generic[Request]):
    """What is the same in every try of a call.

    Attributes:
        start: the first message.
        wrap: makes a message of a piece of input.
        compresses: whether content is sent and an archive received; else the other way round.
        whole: whether all of the content is given back, so that both sides can be compared.
        progress: called with the bytes of the input whose output was received and checked.
    """

    start: Request
    wrap: Callable[[bytes], Request]
    compresses: bool
    whole: bool
    progress: Progress | None = None


class Exchange(Generic[Request]):
    """One try. The sending and the receiving side may be two threads.

    Attributes:
        failure: what ended the sending side early, or None.
        closed: whether the try is over, so that nothing more is to be sent.
        sent, received: bytes of input and output so far.
    """

    def __init__(self, plan: Plan[Request]) -> None:
        self.failure: BaseException | None = None
        self.closed = False
        self.sent = 0
        self.received = 0
        self._plan = plan
        self._agreement = Agreement() if plan.whole else None
        self._summary: Summary | None = None

    def send(self, piece: bytes) -> Request:
        """Return the message for a piece of input.

        Raises:
            FormatError: what is sent is an archive, and damaged.
            ServiceError: see `Agreement`.
        """
        self.sent += len(piece)
        if self._agreement:
            (self._agreement.take_content if self._plan.compresses else self._agreement.take_archive)(piece)
        return self._plan.wrap(piece)

    def receive(self, answer: Answer) -> bytes:
        """Return the piece of output that a message holds; empty for the summary.

        Raises:
            ServiceError: there may be no such message here, or the output does not belong to the input.
        """
        if self._summary is not None:
            raise ServiceError("the service has sent something behind its summary")
        kind = answer.WhichOneof("payload")
        if kind == "summary":
            self._summary = from_summary(answer.summary)
            return b""
        if kind != "data" or not answer.data:
            raise ServiceError("the service has sent a message that holds nothing")
        self.received += len(answer.data)
        if self._agreement is None:
            return answer.data
        if self._plan.compresses:
            _take_answer(self._agreement, answer.data)
        else:
            self._agreement.take_content(answer.data)
        if self._plan.progress:
            agreement = self._agreement
            self._plan.progress(agreement.matched_content if self._plan.compresses else agreement.matched_archive)
        return answer.data

    def finish(self) -> Summary:
        """Return the totals, after the call has ended well.

        Raises:
            ServiceError: output is missing.
            FormatError: the archive that was sent is cut short.
        """
        if self._summary is None:
            raise ServiceError(f"the service's answer was cut short after {self.received} bytes")
        if self._agreement:
            _finish(self._agreement, archive_is_answer=self._plan.compresses)
        summary = self._summary
        content, archive = (self.sent, self.received) if self._plan.compresses else (self.received, self.sent)
        if not self._plan.whole:
            archive = summary.compressed_bytes  # a part of the content may not need all of what was sent
        if (summary.content_bytes, summary.compressed_bytes) != (content, archive):
            raise ServiceError(
                f"the service counts {summary.content_bytes} bytes of content, {summary.compressed_bytes} of archive;"
                f" {content} and {archive} went over the line"
            )
        return summary


def check_pair(content: bytes, archive: bytes, *, archive_is_answer: bool) -> None:
    """Compare a small archive with its content.

    Raises:
        ServiceError: they do not belong together.
        FormatError: the archive was sent, and is damaged.
    """
    agreement = Agreement()
    if archive_is_answer:
        agreement.take_content(content)
        _take_answer(agreement, archive)
    else:
        agreement.take_archive(archive)
        agreement.take_content(content)
    _finish(agreement, archive_is_answer=archive_is_answer)


def _take_answer(agreement: Agreement, data: bytes) -> None:
    try:
        agreement.take_archive(data)
    except FormatError as error:
        raise ServiceError(f"the service's answer is no sound archive: {error}") from None


def _finish(agreement: Agreement, *, archive_is_answer: bool) -> None:
    try:
        agreement.finish()
    except FormatError as error:
        if not archive_is_answer:
            raise
        raise ServiceError(f"the service's answer is no sound archive: {error}") from None
