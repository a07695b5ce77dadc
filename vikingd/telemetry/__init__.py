"""Telemetry: metrics for Prometheus and Stats, spans for OpenTelemetry."""
