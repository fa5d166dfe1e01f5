from speccompact.archive.similarity import alike_order, signature
from tests.fakes import prose


def test_signatures_are_of_the_words_alone() -> None:
    assert signature(b"one two three") == signature(b"one  two\nthree")
    assert signature(b"") == signature(b"two words") == ()
    assert len(signature(prose(500))) == 16


def test_like_sits_with_like_and_the_rest_in_the_order_of_paths() -> None:
    texts = {b"a": prose(4000, 1), b"b": prose(4000, 2), b"c": prose(4000, 3), b"d": prose(4000, 1) + b"more words"}
    order = alike_order(list(texts), [signature(text) for text in texts.values()])
    assert [list(texts)[number] for number in order] == [b"a", b"d", b"b", b"c"]


def test_the_order_does_not_depend_on_how_texts_come() -> None:
    paths = [b"%d" % number for number in range(20)]
    signatures = [signature(prose(600, number % 7)) for number in range(20)]
    forward = [paths[number] for number in alike_order(paths, signatures)]
    backward = [paths[::-1][number] for number in alike_order(paths[::-1], signatures[::-1])]
    assert forward == backward
