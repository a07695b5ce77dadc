"""The settings of the planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from annotated_types import Interval

from vikingd.models.http.endpoint_secrets import is_loopback, key_in


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """The section [planner] of the configuration.

    Attributes:
        base_url: URL of an endpoint with OpenAI's chat protocol; "": OpenAI's own.
        model: name of the model at the endpoint; "": no model, rules make the plans.
        key_env: the environment variable that holds the key.
        timeout: seconds for a plan, with retries and waiting.
        concurrency: the most calls in flight.
    """

    base_url: str = ""
    model: str = ""
    key_env: str = "OPENAI_API_KEY"
    timeout: Annotated[float, Interval(gt=0, le=3600)] = 10.0
    concurrency: Annotated[int, Interval(ge=1, le=1024)] = 8

    def key(self) -> str:
        """Return the endpoint's key; "none" for an endpoint on this machine without one.

        Raises:
            ValueError: the key is missing or the URL is wrong; the message names the remedy.
        """
        host = _host(self.base_url) if self.base_url else ""
        key = key_in(self.key_env)
        if not key and not is_loopback(host):
            way = (
                f"set the environment variable {self.key_env}, or name another one in key_env"
                if self.key_env
                else "name the environment variable that holds it in key_env"
            )
            raise ValueError(
                f"the model needs a key: {way}. Only an endpoint on this machine (base_url such as "
                "http://127.0.0.1:8080/v1) needs none"
            )
        return key or "none"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a wrong port raises
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(
            "base_url must be a URL such as https://HOST/v1 or http://127.0.0.1:8080/v1"
        )
    return host
