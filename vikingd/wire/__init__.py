"""The gRPC services: protobuf to domain and back, and the table from errors to status codes."""
