"""Print an invented log of a small mail service: 200 lines, the same at every run.

python samples/make_log.py > samples/service.log
"""

from datetime import UTC, datetime, timedelta

LINES = 200
_SEED = 20240229
_HOSTS = ("relay-a", "relay-b", "store-1")
_USERS = ("amira", "bo", "chandra", "dmitri", "eun-ji", "fatou")
_FOLDERS = ("inbox", "drafts", "receipts", "lists/gardening", "lists/choir")


class Dice:
    """A linear congruential generator, so that the log depends on no library (modulus 2 ** 31)."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        """Return the next number, 0 <= number < bound."""
        self._state = (self._state * 1103515245 + 12345) % (1 << 31)
        return (self._state >> 8) % bound

    def choice(self, options: tuple[str, ...]) -> str:
        """Return one of the options."""
        return options[self.below(len(options))]


def event(dice: Dice) -> str:
    """Return the part of a line that says what happened."""
    user = dice.choice(_USERS)
    session = f"{dice.below(1 << 24):06x}"
    address = f"10.20.{dice.below(4)}.{dice.below(250) + 1}"
    kind = dice.below(10)
    if kind < 3:
        return f"INFO  session={session} login user={user} from={address} method=token"
    if kind < 6:
        size = dice.below(90_000) + 400
        return f"INFO  session={session} delivered user={user} folder={dice.choice(_FOLDERS)} bytes={size}"
    if kind < 8:
        return f"DEBUG session={session} cache hit=true key=user:{user}:quota age={dice.below(300)}s"
    if kind < 9:
        return f"WARN  session={session} slow query took={dice.below(4000) + 500}ms table=messages user={user}"
    return f"ERROR session={session} delivery failed user={user} reason=timeout retry={dice.below(5) + 1}/5"


def lines() -> list[str]:
    """Return the lines of the log, without line ends."""
    dice = Dice(_SEED)
    moment = datetime(2024, 2, 29, 6, 0, tzinfo=UTC)
    result = []
    for _ in range(LINES):
        moment += timedelta(milliseconds=dice.below(9000) + 20)
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
        result.append(f"{stamp} {dice.choice(_HOSTS)} maild[{dice.below(3) + 411}]: {event(dice)}")
    return result


if __name__ == "__main__":
    print("\n".join(lines()))
