"""Configuration: defaults, a TOML file, the environment (VIKINGD_*), flags; the later wins."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    SettingsConfigDict,
    SettingsError,
)

from vikingd.config_sections import (
    Context,
    Find,
    Gateway,
    Limits,
    Recall,
    Rerank,
    Retrieval,
    Tls,
    check_describer,
    check_embedding,
    check_planner,
    expand_home,
)
from vikingd.domain.daemon_addresses import own_address, parse
from vikingd.domain.durations import seconds_of
from vikingd.domain.tenants import TenantSettings
from vikingd.domain.value_faults import shown, wanted
from vikingd.index.settings import IndexSettings
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.describe.describer_settings import DescriberSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.system.regular_files import read_text
from vikingd.telemetry.metrics_endpoint import token_of

PREFIX = "VIKINGD_"
FILE_VARIABLE = "VIKINGD_CONFIG"
DEFAULT_FILE = "~/.config/vikingd/config.toml"
MOST_PROCESSES = 64

# Variables with our prefix that the clients read, or that name the file.
_NOT_SETTINGS = frozenset(
    PREFIX + name
    for name in ("CONFIG", "ADDRESS", "KEY", "KEY_FILE", "TENANT", "CA", "CERT", "CERT_KEY")
)


class ConfigError(Exception):
    """A configuration that cannot be used; the message names the setting and its origin."""


@contextmanager
def config_errors(setting: str) -> Iterator[None]:
    """Within the block, turn a ValueError into a ConfigError that names the setting."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from None


class Settings(BaseSettings):
    """All settings. Sections of other packages are dataclasses, which are validated here."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    trust_network: bool = False  # allow plain TCP on addresses that other machines reach
    allow_local: bool = False  # loopback and unix sockets need no key
    listen: Annotated[tuple[str, ...], NoDecode] = ("127.0.0.1:7716",)
    writer_listen: str = ""  # a second address, of the writer alone; empty: none
    # Processes that answer at the TCP addresses: the writer and its readers.
    processes: Literal["auto"] | Annotated[int, Field(ge=1, le=MOST_PROCESSES)] = 1
    metrics_token_env: str = ""  # the variable with the token of the metrics; empty: no token
    metrics_listen: str = ""  # address of the metrics for Prometheus; empty: none
    tracing: bool = False  # spans for OpenTelemetry; OTEL_* variables configure it
    path: Path = Path("~/.local/share/vikingd")
    store: str = ""  # the URL of a PostgreSQL database that nodes share; empty: a file below `path`
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    stop_when_idle: float = Field(default=0.0, ge=0, allow_inf_nan=False)  # seconds; 0: never
    embedding: Annotated[EmbedSettings, AfterValidator(check_embedding)] = EmbedSettings()
    planner: Annotated[PlannerSettings, AfterValidator(check_planner)] = PlannerSettings()
    describer: DescriberSettings = DescriberSettings()  # after `planner`, which completes it
    find: Find = Find()
    retrieval: Retrieval = Retrieval()
    context: Context = Context()
    recall: Recall = Recall()
    rerank: Rerank = Rerank()
    index: IndexSettings = IndexSettings()
    limits: Limits = Limits()
    tenants: TenantSettings = TenantSettings()
    tls: Tls = Field(default=Tls(), validate_default=True)
    gateway: Gateway = Field(default=Gateway(), validate_default=True)

    @field_validator("listen", mode="before")
    @classmethod
    def _listen_is_split(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("listen")
    @classmethod
    def _listen_can_be_reached_safely(
        cls, value: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        addresses = [own_address(text) for text in value]
        if not addresses:
            raise ValueError("name at least one address")
        for address in addresses:
            if not (address.tls or address.is_local or info.data.get("trust_network")):
                raise ValueError(
                    f"other machines reach {address}, and plain TCP would show them keys and "
                    f"contexts. Listen on vikings://{address} with tls.certificate and tls.key, "
                    "or say --trust-network if only trusted machines are on this network"
                )
        taken = [(a.host, a.port, a.path) for a in addresses if a.port or a.path]
        if len(set(taken)) < len(taken):
            raise ValueError("one address is named twice")
        return tuple(map(str, addresses))

    @field_validator("stop_when_idle", mode="before")
    @classmethod
    def _duration_is_read(cls, value: Any) -> Any:
        return seconds_of(value) if isinstance(value, str) else value

    @field_validator("writer_listen")
    @classmethod
    def _is_local_or_empty(cls, value: str) -> str:
        if not value:
            return value
        address = own_address(value)
        if address.tls or not address.is_local:
            raise ValueError(f"{address} is not a loopback address or unix:PATH")
        return str(address)

    @field_validator("metrics_token_env")
    @classmethod
    def _token_is_set(cls, value: str) -> str:
        if value:
            token_of(value)
        return value

    @field_validator("metrics_listen")
    @classmethod
    def _metrics_are_local_or_have_a_token(cls, value: str, info: ValidationInfo) -> str:
        if not value:
            return value
        address = own_address(value)
        if address.tls or address.path:
            raise ValueError(f"{address} is not HOST:PORT")
        if not (address.is_local or info.data.get("metrics_token_env")):
            raise ValueError(
                f"other machines reach {address}: name the environment variable with the token "
                "of the metrics in metrics_token_env, or take a loopback address"
            )
        return str(address)

    @field_validator("describer")
    @classmethod
    def _describer_can_be_asked(
        cls, value: DescriberSettings, info: ValidationInfo
    ) -> DescriberSettings:
        return check_describer(value, info.data.get("planner", PlannerSettings()))

    @field_validator("tls")
    @classmethod
    def _tls_has_its_files(cls, value: Tls, info: ValidationInfo) -> Tls:
        if bool(value.certificate) != bool(value.key):
            raise ValueError("tls.certificate and tls.key go together; set both")
        secure = [text for text in info.data.get("listen", ()) if parse(text).tls]
        if secure and not value.certificate:
            raise ValueError(
                f"{secure[0]} needs a certificate and its key: set tls.certificate and tls.key "
                "(--tls-certificate FILE --tls-key FILE)"
            )
        return value

    @field_validator("gateway")
    @classmethod
    def _gateway_is_reached_safely(cls, value: Gateway, info: ValidationInfo) -> Gateway:
        address, trusted = value.address, info.data.get("trust_network")
        tls: Tls = info.data.get("tls", Tls())
        if address.tls and not tls.certificate:
            raise ValueError(
                f"{value.listen} needs a certificate and its key: set tls.certificate and tls.key"
            )
        if not (address.tls or address.is_local or trusted):
            raise ValueError(
                f"other machines reach {value.listen}, and plain HTTP would show them keys and "
                f"contexts. Listen on https://{value.listen} with tls.certificate and tls.key, or "
                "say --trust-network if only trusted machines are on this network"
            )
        daemon = parse(value.daemon) if value.daemon else None
        if daemon and not (daemon.tls or daemon.is_local or trusted):
            raise ValueError(
                f"keys are not sent to {daemon} in plain text: connect to vikings://{daemon}, or "
                "say --trust-network if only trusted machines are on this network"
            )
        return value

    @property
    def metrics_token(self) -> str:
        """The token of the metrics; "" if they need none. Each access reads the environment."""
        return self.metrics_token_env and token_of(self.metrics_token_env)

    @field_validator("store")
    @classmethod
    def _is_postgres_or_empty(cls, value: str) -> str:
        if value and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("a shared store is postgresql://USER@HOST:PORT/DATABASE")
        return value

    @field_validator("path")
    @classmethod
    def _path_is_absolute(cls, value: Path) -> Path:
        return expand_home(value).absolute()


@dataclass(frozen=True)
class Loaded:
    """The settings in force, and the origin of each that is not a default."""

    settings: Settings
    origins: Mapping[str, str]  # "embedding.provider" -> "--provider"

    def toml(self) -> str:
        """Return the settings as TOML with their origins as comments, without secrets."""
        lines = []
        for key, value in _leaves(self.settings.model_dump(mode="json")):
            section, _, name = key.rpartition(".")
            if section and f"[{section}]" not in lines:
                lines += ["", f"[{section}]"]
            origin = self.origins.get(key, "default")
            if isinstance(value, list) and not any(isinstance(row, str) for row in value):
                lines += _tables(key, value, origin)
                continue
            lines.append(f"{f'{name} = {_json(value)}':<60} # {origin}")
        return "\n".join(lines) + "\n"


def _tables(key: str, rows: list[dict[str, Any]], origin: str) -> Iterator[str]:
    """Yield the lines of an array of tables in TOML; a comment at each table names its origin."""
    for row in rows:
        yield from ("", f"{f'[[{key}]]':<60} # {origin}")
        yield from (f"{name} = {_json(value)}" for name, value in row.items())


def _json(value: Any) -> str:
    """Return a scalar or an array, which JSON and TOML write alike, without secrets."""
    text = _without_secrets(value) if isinstance(value, str) else value
    return json.dumps(text, ensure_ascii=False)


def _without_secrets(text: str) -> str:
    """Mask the user, the password, the query and the fragment of a URL."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    # An unescaped password may hold any character, so all before the last @ is masked.
    _, at, rest = rest.rpartition("@")
    address = re.split(r"[?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{'***@' if at else ''}{address}{'?***' if address != rest else ''}"


def load(file: Path | None = None, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Load the settings from all sources.

    Args:
        file: the value of --config; None: the file that the environment names, or the default one.
        flags: the settings of the command line, nested as in the file.

    Raises:
        ConfigError: the message names each unknown or wrong setting and its origin.
    """
    file = _file_to_read(file)
    from_file = _read(file) if file else {}
    from_flags = dict(flags or {})
    try:
        from_environment = EnvSettingsSource(Settings)()
    except SettingsError as error:
        named = re.search(r'field "(\w+)"', str(error))
        variable = PREFIX + named[1].upper() if named else "the environment"
        raise ConfigError(f"{variable} is not valid JSON; give a table as JSON") from None
    merged = _merge(_merge(from_file, from_environment), from_flags)
    from_environment |= _unknown_variables(merged)

    origins = {key: str(file) for key, _ in _leaves(from_file)}
    origins |= {
        key: PREFIX + key.replace(".", "__").upper() for key, _ in _leaves(from_environment)
    }
    origins |= {key: _flag(key) for key, _ in _leaves(from_flags)}
    try:  # Settings itself reads the environment again, with lower priority
        settings = Settings(**_merge(from_environment, merged))
    except ValidationError as error:
        raise ConfigError(_describe(error, origins)) from None
    return Loaded(settings, origins)


def _file_to_read(file: Path | None) -> Path | None:
    if file is not None:
        return file
    if named := os.environ.get(FILE_VARIABLE):
        try:
            return expand_home(Path(named))
        except ValueError as error:
            raise ConfigError(f"{FILE_VARIABLE}: {error}") from None
    try:
        default = expand_home(Path(DEFAULT_FILE))
    except ValueError:  # the user has no home
        return None
    return default if default.exists() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads("" if file == Path(os.devnull) else read_text(file))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {file}: {error.strerror}") from None
    except ValueError as error:  # TOML syntax and encoding
        raise ConfigError(f"{file} is not valid TOML: {error}") from None


def _merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return both trees of settings merged; where both have a value, that of `high` counts."""
    out = dict(low)
    for key, value in high.items():
        below = out.get(key)
        nested = isinstance(value, Mapping) and isinstance(below, Mapping)
        out[key] = _merge(below, value) if nested else value  # type: ignore[arg-type]
    return out


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


_REMOVED = {
    "recall.same_meaning": (
        "was removed, since words alone tell that a memory is said again: delete it"
    )
}


def _unknown_variables(merged: Mapping[str, Any]) -> dict[str, str]:
    """Return variables with our prefix that name no setting, so that they are refused."""
    keys = set(_key_variables(merged))
    fields = Settings.model_fields
    sections = {
        name
        for name, field in fields.items()
        if not isinstance(field.default, str | float | int | Path | tuple)
    }
    out = {}
    for variable, value in os.environ.items():
        name = variable.upper()
        if name.startswith(PREFIX) and name not in _NOT_SETTINGS and variable not in keys:
            setting = name.removeprefix(PREFIX).lower()
            first, below, _ = setting.partition("__")
            # Settings itself refuses unknown names within a section.
            if first not in (sections if below else fields):
                out[setting] = value
    return out


def _key_variables(merged: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of environment variables that hold keys, as the settings name them.

    `merged` has the settings of all sources, which are not checked yet.
    """
    rerank = merged.get("rerank")
    backends = rerank.get("backends") if isinstance(rerank, Mapping) else None
    sections = [merged, *map(merged.get, ("embedding", "planner", "describer"))]
    for section in [*sections, *(backends if isinstance(backends, list) else ())]:
        if isinstance(section, Mapping):
            yield from (
                str(value)
                for name, value in section.items()
                if name.endswith("key_env") or name == "metrics_token_env"
            )


def _flag(key: str) -> str:
    name = key.replace("tls.", "tls_").rpartition(".")[2]
    return "--" + name.replace("_", "-")


def _describe(error: ValidationError, origins: Mapping[str, str]) -> str:
    reasons: dict[str, list[str]] = {}  # a value that may have several types has several faults
    values: dict[str, str] = {}
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"] if _is_of_setting(part))
        if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            reason = _REMOVED.get(key, "there is no such setting")
        elif fault["type"] == "missing":
            reason = "is missing"
        elif form := wanted(fault).replace("an object", "a table"):
            reason = form if key in values else f"must be {form}"
            values[key] = _shown(fault["input"])
        else:
            reason = fault["msg"].removeprefix("Value error, ")
        reasons.setdefault(key, []).append(reason)
    return "\n".join(
        f"{key}: {' or '.join(several)}{values.get(key, '')}{_origin(key, origins)}"
        for key, several in reasons.items()
    )


def _is_of_setting(part: int | str) -> bool:
    """Return True if a part of the location of an error belongs to the name of a setting.

    Of ("retrieval", "floor", "float") the last part does not: pydantic adds the name of the type
    that it has tried, if a setting may have several.
    """
    return isinstance(part, int) or (part.isidentifier() and part not in ("float", "int", "str"))


def _shown(value: Any) -> str:
    """Return a wrong value for an error; a table is not shown, since it may have secrets."""
    if isinstance(value, Mapping | list | tuple):
        return ""
    return f", not {shown(_without_secrets(value) if isinstance(value, str) else value)}"


def _origin(key: str, origins: Mapping[str, str]) -> str:
    origin = origins.get(key) or next(
        (
            source
            for name, source in origins.items()
            if name.startswith(key + ".") or key.startswith(name + ".")
        ),
        "",
    )
    return f" (from {origin})" if origin else ""
