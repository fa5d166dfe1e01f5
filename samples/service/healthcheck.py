"""Exit code 0 if the service on this machine is ready. Its address is the first argument."""

import sys
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

stub: Any  # its methods are not in the typed stubs
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
    except grpc.RpcError as error:
        sys.exit(f"no answer: {error.code().name}")
sys.exit(0 if answer.status == health_pb2.HealthCheckResponse.SERVING else "not serving")
