"""What the service raises towards a client; each knows its gRPC status and whether to retry.

ServiceError
├── InvalidRequestError     INVALID_ARGUMENT: the request can't be read, or contradicts itself
├── TooLargeError           RESOURCE_EXHAUSTED: over a size limit
├── BusyError               RESOURCE_EXHAUSTED, retryable: the queue is full
├── NotFoundError           NOT_FOUND: no such job, artifact or release
├── ExistsError             ALREADY_EXISTS: a revision with other content
├── PreconditionError       FAILED_PRECONDITION: what the request builds on is not there
├── OutOfRangeError         OUT_OF_RANGE: an offset past the end
└── OutageError             UNAVAILABLE, retryable: no tier of the store answers

A compile that fails is none of these: it is a Failure in the answer.
"""

from __future__ import annotations

import grpc


class ServiceError(Exception):
    """Base of all."""

    status: grpc.StatusCode = grpc.StatusCode.INTERNAL


class InvalidRequestError(ServiceError):
    """The request can't be read, or contradicts itself."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class TooLargeError(ServiceError):
    """Over a size limit."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class BusyError(ServiceError):
    """The queue is full; later may work."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class NotFoundError(ServiceError):
    """No such job or artifact."""

    status = grpc.StatusCode.NOT_FOUND


class ExistsError(ServiceError):
    """It is there already, with other content."""

    status = grpc.StatusCode.ALREADY_EXISTS


class PreconditionError(ServiceError):
    """What the request builds on is not there."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class OutOfRangeError(ServiceError):
    """An offset past the end."""

    status = grpc.StatusCode.OUT_OF_RANGE


class OutageError(ServiceError):
    """Nothing that could answer does; later may work."""

    status = grpc.StatusCode.UNAVAILABLE


class ConfigError(Exception):
    """The service can't start as it was asked to; the message says why and what to do."""
