"""The settings of the describer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Interval

from vikingd.domain.contexts import EXTRACT, HAND
from vikingd.models.chat.planner_settings import PlannerSettings

_LEAST_TOKENS = 10_000
"""The least limit of tokens in a day; one question with its answers must fit into it."""


@dataclass(frozen=True, slots=True)
class DescriberSettings:
    """The section [describer] of the configuration.

    Attributes:
        base_url: URL of an endpoint with OpenAI's chat protocol; "": that of the planner.
        model: name of the model at the endpoint; "": no model, abstracts are extracts.
        key_env: the environment variable that holds the key; "": that of the planner if both have
            the same endpoint, else none.
        timeout: seconds for one answer, with a retry and waiting.
        concurrency: the most calls in flight.
        tokens_per_day: most tokens of questions and answers in a UTC day; 0: no limit.
        min_characters: shorter files are not described.
    """

    base_url: str = ""
    model: str = ""
    key_env: str = ""
    timeout: Annotated[float, Interval(gt=0, le=3600)] = 60.0
    concurrency: Annotated[int, Interval(ge=1, le=1024)] = 4
    tokens_per_day: Annotated[int, Ge(0)] = 1_000_000
    min_characters: Annotated[int, Ge(1)] = 1_200

    def endpoint(self, planner: PlannerSettings) -> PlannerSettings:
        """Return the settings of the model's endpoint; empty ones are taken from `planner`.

        Raises:
            ValueError: a setting cannot be used; the message names it and the remedy.
        """
        if self.model in (HAND, EXTRACT):
            raise ValueError(
                f"model cannot be {self.model!r}, which names another maker of a text: give the "
                "model another name at its endpoint"
            )
        if 0 < self.tokens_per_day < _LEAST_TOKENS:
            raise ValueError(
                f"tokens_per_day must be 0 for no limit, or at least {_LEAST_TOKENS:,}, not "
                f"{self.tokens_per_day:,}: one question may need so many"
            )
        base_url = self.base_url or planner.base_url
        # The planner's key is for the planner's endpoint alone.
        key_env = self.key_env or (planner.key_env if base_url == planner.base_url else "")
        return PlannerSettings(base_url, self.model, key_env, self.timeout, self.concurrency)
