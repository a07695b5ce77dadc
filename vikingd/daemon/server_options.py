"""The options of the daemon's gRPC servers: the sizes of messages and the limits of connections."""

from __future__ import annotations

# Limits of one connection; clients connect again by themselves.
_STREAMS = 1000  # calls in flight
_IDLE_MS = 15 * 60_000
_AGE_MS = 6 * 3_600_000
_AGE_GRACE_MS = 60_000
# With TLS connections end sooner: they keep the certificates of their handshake. The grace is for
# calls that run; new ones take a new connection.
_TLS_AGE_MS = 10 * 60_000
_TLS_AGE_GRACE_MS = 3_600_000
_HANDSHAKE_MS = 20_000


def server_options(
    message_bytes: int, connections: int, *, tls: bool
) -> tuple[tuple[str, int], ...]:
    """Return gRPC's server options for the largest request and the number of connections."""
    return (
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", -1),
        # Probing widens the windows of all streams to several MB, which callers without a key could
        # fill. Without it gRPC widens the window of a request that it receives, which is as fast.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.so_reuseport", 1),  # writer and readers of a store share a port
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.max_concurrent_streams", _STREAMS),
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        ("grpc.max_connection_age_ms", _TLS_AGE_MS if tls else _AGE_MS),
        ("grpc.max_connection_age_grace_ms", _TLS_AGE_GRACE_MS if tls else _AGE_GRACE_MS),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        ("grpc.http2.max_ping_strikes", 2),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    )
