"""Errors of the library: one tree, one stable number for each class.

    SpecCompactError
    ├── ArgumentError          what the caller asked for makes no sense
    ├── FormatError            the compressed data cannot be decoded
    │   ├── NotSpecCompactError    it does not start with the magic number
    │   ├── UnsupportedError       a version or feature of a newer release
    │   ├── TruncatedError         the data ends too early
    │   └── DamagedError           a check fails or a field is impossible
    ├── ModelError             a model cannot be used
    │   ├── ModelMissingError      it is not in the store
    │   └── ModelDamagedError      its file differs from its digest, or breaks a rule
    ├── LimitError             decoding would need more than the limits allow
    ├── JobError               an archive job cannot go on: other options than it began with, or another process at work
    └── ServiceError           a service at the other end of a network failed, or answered what cannot be
        ├── ServiceUnavailableError    it cannot be reached, or is about to end
        ├── ServiceBusyError           it has more to do than it takes on
        ├── ServiceTimeoutError        it was not done by the deadline
        └── ServiceDeniedError         it does not serve this caller

Numbers are part of the public contract: they are never reused. The edges (command line, service) map classes to exit
codes and status codes; the library knows only classes and numbers. Messages name the file, frame, offset or field and
say what to do.
"""

from typing import ClassVar


class SpecCompactError(Exception):
    """Base of every error raised on purpose by this library."""

    number: ClassVar[int] = 1


class ArgumentError(SpecCompactError):
    """The caller asked for something impossible; the message names the argument."""

    number = 10


class FormatError(SpecCompactError):
    """The compressed data cannot be decoded."""

    number = 20


class NotSpecCompactError(FormatError):
    """The data does not start with the magic number."""

    number = 21


class UnsupportedError(FormatError):
    """The data needs a newer release: unknown version, reserved bit set, unknown kind."""

    number = 22


class TruncatedError(FormatError):
    """The data ends in the middle of a structure."""

    number = 23


class DamagedError(FormatError):
    """A check fails, or a field has an impossible value; the message names frame and slot."""

    number = 24


class ModelError(SpecCompactError):
    """A model cannot be read, converted or used."""

    number = 30


class ModelMissingError(ModelError):
    """The model is not in the store; the message gives the command that fetches it."""

    number = 31


class ModelDamagedError(ModelError):
    """A model file differs from its digest, or an overflow bound in it does not hold."""

    number = 32


class LimitError(SpecCompactError):
    """Decoding would need more memory or output than the limits allow."""

    number = 40


class JobError(SpecCompactError):
    """An archive job cannot go on as asked; the message says what stands in its way."""

    number = 50


class ServiceError(SpecCompactError):
    """A service failed, or its answer is not what it should be: cut short, or of other content than was sent."""

    number = 60


class ServiceUnavailableError(ServiceError):
    """The service cannot be reached, or is about to end; later or elsewhere the same call may succeed."""

    number = 61


class ServiceBusyError(ServiceError):
    """The service has more to do than it takes on; later the same call may succeed."""

    number = 62


class ServiceTimeoutError(ServiceError):
    """The service was not done by the deadline."""

    number = 63


class ServiceDeniedError(ServiceError):
    """The service does not serve this caller: a token is missing, unknown, or may not do what was asked."""

    number = 64
