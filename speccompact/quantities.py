"""Numbers of bytes and seconds in words, for people."""

_UNITS = ("B", "kB", "MB", "GB", "TB")


def amount(count: float) -> str:
    """Return a number of bytes in decimal units: 999 B, 1.5 kB, 2.25 GB."""
    scaled, unit = float(count), 0
    while scaled >= 999.5 and unit + 1 < len(_UNITS):
        scaled, unit = scaled / 1000, unit + 1
    return f"{scaled:.0f} {_UNITS[unit]}" if unit == 0 else f"{scaled:.3g} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """Return a time: 0:07, 12:30, 3:05:00."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
