"""The stage that knows who calls."""

from typing import Final

import grpc

from speccompact_grpc.interception import PassiveStage, ServedCall
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.tokens import Tokens

_SCHEME: Final = "bearer "
_JOB_METHODS: Final = frozenset({"SubmitJob", "GetJob", "ListJobs", "WatchJob", "CancelJob"})


class Authentication(PassiveStage):
    """Finds the caller by its bearer token; without tokens, everyone is served."""

    def __init__(self, tokens: Tokens | None) -> None:
        """Bind the tokens; None for none."""
        self._tokens = tokens

    def begin(self, call: ServedCall) -> None:
        """Set the caller, or refuse."""
        if self._tokens is None:
            return
        text = call.metadata.get("authorization", "")
        if not text.lower().startswith(_SCHEME):
            raise Refusal(
                grpc.StatusCode.UNAUTHENTICATED, "TOKEN", "send a token as metadata authorization: Bearer TOKEN"
            )
        caller = self._tokens.caller(text[len(_SCHEME) :].strip())
        if caller is None:
            raise Refusal(grpc.StatusCode.UNAUTHENTICATED, "TOKEN", "the token is unknown here")
        if call.method in _JOB_METHODS and not caller.jobs:
            raise Refusal(grpc.StatusCode.PERMISSION_DENIED, "TOKEN", "the token may not be used for jobs")
        call.caller = caller
