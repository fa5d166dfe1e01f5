"""The stage that knows who calls."""

from typing import Final

import grpc

from speccompact_grpc.interception import PassiveStage, ServedCall
from speccompact_grpc.refusals import Refusal
from speccompact_grpc.tokens import Tokens
from speccompact_grpc.v1 import speccompact_pb2 as pb

_JOB_METHODS: Final = frozenset(pb.DESCRIPTOR.services_by_name["JobService"].methods_by_name)


class Authentication(PassiveStage):
    """Finds the caller by its bearer token; without tokens, everyone is served."""

    def __init__(self, tokens: Tokens | None) -> None:
        """Bind the tokens; None for none."""
        self._tokens = tokens

    def begin(self, call: ServedCall) -> None:
        """Set the caller, or refuse."""
        if self._tokens is None:
            return
        caller = self._tokens.bearer(call.metadata.get("authorization", ""))
        if caller is None:
            raise Refusal(
                grpc.StatusCode.UNAUTHENTICATED,
                "TOKEN",
                "send a token that is known here as metadata authorization: Bearer TOKEN",
            )
        if call.method in _JOB_METHODS and not caller.jobs:
            raise Refusal(grpc.StatusCode.PERMISSION_DENIED, "TOKEN", "the token may not be used for jobs")
        call.caller = caller
