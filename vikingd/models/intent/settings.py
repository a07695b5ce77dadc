"""Which model plans, and what it may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from annotated_types import Interval

from vikingd.models.http.access import is_loopback, key_in


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """The model that plans searches, at any endpoint that speaks OpenAI's chat protocol.

    Attributes:
        base_url: of the endpoint; "" is OpenAI's own.
        model: as the endpoint calls it; "" asks none, and rules plan.
        key_env: the environment variable that holds the key.
        timeout: seconds that planning may take, retries and waiting for others included.
        concurrency: most calls to the model at a time.
    """

    base_url: str = ""
    model: str = ""
    key_env: str = "OPENAI_API_KEY"
    timeout: Annotated[float, Interval(gt=0, le=3600)] = 10.0
    concurrency: Annotated[int, Interval(ge=1, le=1024)] = 8

    def key(self) -> str:
        """The key for the endpoint; "none" for one on this machine that was given none.

        Raises:
            ValueError: the model can't be asked; the message says what to set.
        """
        host = _host(self.base_url) if self.base_url else ""
        key = key_in(self.key_env)
        if not key and not is_loopback(host):
            raise ValueError(
                f"the model is asked with the key in the environment variable {self.key_env}, "
                "which is not set; set it, or name another in key_env. Only with base_url on "
                "this machine (such as http://127.0.0.1:8080/v1) no key is needed"
            )
        return key or "none"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that is no number raises
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(
            "base_url must be a URL such as https://HOST/v1 or http://127.0.0.1:8080/v1"
        )
    return host
