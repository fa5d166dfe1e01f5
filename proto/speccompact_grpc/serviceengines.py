"""The models of the service, each with its pool; and for every call engines that lead there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from speccompact.errors import ArgumentError, ModelMissingError
from speccompact.modelstore.loading import load_target
from speccompact.options import Options
from speccompact.parallel import Workers
from speccompact.params import MIN_TABLE_BITS
from speccompact.speculative.drafters import make_drafting
from speccompact.speculative.drafting import Drafting
from speccompact.streams.engine import CodedSlot, Engine
from speccompact.text.tokenizer import Tokenizer
from speccompact_grpc.calls import Call
from speccompact_grpc.grouproom import GroupRoom
from speccompact_grpc.observing import Observer
from speccompact_grpc.pool import GROUP_BYTES, Pool
from speccompact_grpc.pooledcodec import PooledCodec


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is loaded.

    Attributes:
        name: to ask for.
        pool: its target and its thread.
        tokenizer: cuts text for it.
    """

    name: str
    pool: Pool
    tokenizer: Tokenizer


class ServedModels:
    """All models of the service; the first one is the default."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        """Bind models with different names, at least one."""
        self._models = {model.name: model for model in models}

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    @classmethod
    def load(
        cls,
        names: Sequence[str],
        options: Options,
        places: int = 128,
        queue_slots: int = 4096,
        observer: Observer | None = None,
    ) -> "ServedModels":
        """Load models from the store and start their pools.

        Args:
            names: of the store, or paths of exact model files; the first one is the default. Callers know each by the
                name that it has in the store.
            options, places, queue_slots, observer: see `Pool`.

        Raises:
            ArgumentError: there is no name.
            ModelError: a model is missing or damaged, or the drafter's weights are.
        """
        if not names:
            raise ArgumentError("models is empty; name at least one")
        served: dict[bytes, ServedModel] = {}
        room = GroupRoom(GROUP_BYTES)
        for name in names:
            target, tokenizer = load_target(name, options)
            if target.digest in served:
                continue
            drafting: Callable[[Workers], Drafting] = partial(make_drafting, target.vocabulary, options)
            pool = Pool(target, options, places, queue_slots, drafting, observer, room)
            _warm(pool)
            served[target.digest] = ServedModel(target.name, pool, tokenizer)
        return cls(list(served.values()))

    @property
    def default(self) -> ServedModel:
        """What an empty name means."""
        return next(iter(self))

    def named(self, name: str) -> ServedModel:
        """Return a model by its name.

        Raises:
            ModelMissingError: the service has no such model.
        """
        model = self._models.get(name) if name else self.default
        if model is None:
            raise ModelMissingError(f'the service has no model "{name[:256]}"; it has {", ".join(self._models)}')
        return model

    def for_digest(self, digest: bytes) -> ServedModel:
        """Return the model whose digest starts with these bytes.

        Raises:
            ModelMissingError: the service has no such model.
        """
        for model in self:
            if model.pool.target.digest.startswith(digest):
                return model
        raise ModelMissingError(f"the service has no model with the digest {digest.hex()}; it has {self._digests()}")

    def close(self) -> None:
        """Finish what the pools have, and end their threads."""
        for model in self:
            model.pool.close()

    def _digests(self) -> str:
        return ", ".join(model.pool.target.digest[:8].hex() for model in self)


def _warm(pool: Pool) -> None:
    """Encode and decode a few symbols, so that the first caller does not wait for kernels to be compiled."""
    codec, symbols = PooledCodec(pool, Call("warm-up")), np.arange(4, dtype=np.int32)
    for shared in (False, True):
        memory = codec.begin_group(MIN_TABLE_BITS) if shared else None
        lanes = codec.try_encode([symbols], [0], None, None, memory) or []
        memory = codec.begin_group(MIN_TABLE_BITS) if shared else None
        codec.decode([CodedSlot(lane.payload, len(symbols)) for lane in lanes], None, memory)


class ServiceEngines:
    """See `speccompact.streams.engine.Engines`: engines for one call, whose slots go to the pools.

    `named` also takes an empty name, for the default model.
    """

    def __init__(self, models: ServedModels, call: Call) -> None:
        """Bind a call to the models."""
        self._models, self._call = models, call
        self._engines: dict[str, Engine] = {}

    def named(self, model: str) -> Engine:
        """See `Engines`."""
        return self._engine(self._models.named(model))

    def for_digest(self, digest: bytes) -> Engine:
        """See `Engines`."""
        return self._engine(self._models.for_digest(digest))

    def _engine(self, model: ServedModel) -> Engine:
        if model.name not in self._engines:
            self._engines[model.name] = Engine(PooledCodec(model.pool, self._call), model.tokenizer)
        return self._engines[model.name]
