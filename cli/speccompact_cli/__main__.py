"""``python -m speccompact_cli``: the same as the ``speccompact`` script."""

from speccompact_cli.main import main

main()
