"""The gRPC service: many callers, one model, full batches."""
