from speccompact.training import provenance
from speccompact.training.trainoptions import TrainOptions


def test_the_command_line_says_what_is_unusual() -> None:
    options = TrainOptions(rank=None, mix={"a b": 0.5}, compile=True)
    assert " --alpha 1.23456789 " in provenance.command_line(
        TrainOptions(alpha=1.23456789), "tiny", held_out=False, start=False
    )
    command = provenance.command_line(options, "tiny", held_out=True, start=False)
    assert "--held-out HELD_OUT --full --mix 'a b'=0.5 " in command
    assert command.endswith(" --compile")
