"""Callers of every kind at once: whoever is honest gets the right bytes, and nothing of the others stays behind."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import speccompact
from speccompact.errors import SpecCompactError
from speccompact_grpc.calls import Call, CallEnded
from speccompact_grpc.serviceengines import ServedModels, ServiceEngines
from tests.service_server import SERVED
from tests.tiny_model import TINY_EXACT, babble

MODEL = str(TINY_EXACT)
_CALLS, _THREADS = 60, 12


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crowd(seed: int) -> None:
    models = ServedModels.load([MODEL], SERVED, places=8, queue_slots=30)
    chance = random.Random(seed)
    texts = [babble(chance.randrange(20, 600), n).encode() for n in range(6)]
    kinds = [(text, level) for text in texts for level in (1, 2)]
    archives = [speccompact.compress(text, level=level, model=MODEL, options=SERVED) for text, level in kinds]
    name = models.default.name
    outcomes: dict[str, int] = {}
    lock = threading.Lock()

    def call(number: int) -> None:
        own = random.Random(1000 * seed + number)
        (text, level), archive = kinds[choice := own.randrange(len(kinds))], archives[choice]
        behaviour = own.choice(["honest", "honest", "cancels", "hurries", "lies"])
        deadline = time.monotonic() + own.random() / 10 if behaviour == "hurries" else None
        mine = Call(f"caller {number % 4}", own.randrange(1, 4), deadline, patient=behaviour == "honest")
        engines = ServiceEngines(models, mine)
        if behaviour == "cancels":
            timer = threading.Timer(own.random() / 10, mine.cancel)
            timer.start()
        outcome = behaviour
        try:
            if behaviour == "lies":
                wrong = bytearray(archive)
                wrong[own.randrange(len(wrong) // 2, len(wrong))] ^= 1 << own.randrange(8)
                assert speccompact.decompress(bytes(wrong), engines=engines) == text
            elif own.random() < 0.5:
                assert speccompact.decompress(archive, engines=engines) == text
            else:
                assert speccompact.compress(text, level=level, model=name, engines=engines) == archive
        except (CallEnded, SpecCompactError) as error:
            outcome = f"{type(error).__name__} of one who {behaviour}"
        with lock:
            outcomes[outcome] = outcomes.get(outcome, 0) + 1

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(call, range(_CALLS)))
    assert outcomes["honest"] > 10
    assert not any(outcome.endswith("honest") for outcome in outcomes if outcome != "honest"), outcomes
    pool = models.default.pool
    models.close()
    assert pool.idle
