"""SIGKILL at any moment, on a store that several writers use.

Each start is checked against the model. Kills happen under load, during a start, during the
creation of a store, and during optimize, compaction and reembed.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.chaos import model, worlds
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong
from tests.models.embed_helpers import Endpoint
from vikingd.client import ClientError

KIND = "kills"
WRITERS = 4
SMALL = {"VIKINGD_INDEX__COMPACT_MIN": "40", "VIKINGD_INDEX__IVF_ROWS": "120"}
"""Settings for frequent compactions and inverted files."""

_LIVES = 20  # kills of one store
_MOMENTS = ("load", "load", "load", "optimize", "starting", "starting")


def run(run: Run) -> None:
    """Kill daemons until the time is over."""
    numbers = run.step_numbers(KIND)
    for number in numbers:
        directory = run.directory / f"kills-{number}"
        with run.step(KIND, str(number), directory):
            if number % 5 == 2:
                reembed(run, number, directory)
            else:
                lives(run, number, directory)


def lives(run: Run, number: int, directory: Path) -> None:
    """Kill one store's daemon many times."""
    dice = run.dice(KIND, number)
    emulated = run.slower > 1  # a forked daemon hung under qemu, a new interpreter served
    writers = [model.Writer(n, f"{run.seed}/{KIND}/{number}") for n in range(WRITERS)]
    store, trace = directory / "store", list[str]()
    directory.mkdir()
    try:
        for life in range(_LIVES):
            if time.monotonic() > run.until:
                break
            if life == 0 or dice.random() < 0.1:
                # While the store is created or opened.
                delay = run.slower * dice.expovariate(1 / 0.08)
                trace.append(f"starting {delay:.3f} s")
                daemon = Daemon(run.nursery, store, fresh=emulated or dice.random() < 0.03, **SMALL)
                time.sleep(delay)
                _kill(run, daemon)
            daemon = Daemon(run.nursery, store, fresh=emulated or dice.random() < 0.02, **SMALL)
            run.count(KIND, "starts")
            with daemon.client() as client:
                model.check(client, writers, dice)
                moment = dice.choice(_MOMENTS)
                delay = run.slower * dice.expovariate(1 / 0.25)
                trace.append(f"{moment} {delay:.3f} s at revision {client.stats().revision}")
                before = sum(writer.requests for writer in writers)
                load = model.Load(writers, daemon.client)
                if moment == "optimize":
                    threading.Thread(target=_optimize, args=(daemon,), daemon=True).start()
                time.sleep(delay)
                _kill(run, daemon)
                load.end()
                run.count(KIND, "requests", sum(w.requests for w in writers) - before)
        daemon = Daemon(run.nursery, store, fresh=emulated, **SMALL)
        run.count(KIND, "starts")
        with daemon.client() as client:
            model.check(client, writers, dice)
            daemon.stop()
        run.count(KIND, "acknowledged", sum(writer.acknowledged for writer in writers))
    except (Wrong, ClientError) as error:
        lines = [*trace[-12:], *(line for w in writers for line in list(w.trace)[-3:])]
        raise Wrong(f"{error}\ntrace:\n  " + "\n  ".join(lines)) from error


def _kill(run: Run, daemon: Daemon) -> None:
    daemon.kill()
    run.count(KIND, "kills")
    daemon.discard()


def _optimize(daemon: Daemon) -> None:
    with suppress(ClientError), daemon.client() as client:
        client.optimize()


def reembed(run: Run, number: int, directory: Path) -> None:
    """Change the model of a store several times, with kills in between."""
    dice = run.dice(KIND, number)
    writers = [model.Writer(n, f"{run.seed}/{KIND}/{number}") for n in range(2)]
    store = directory / "store"
    directory.mkdir()
    endpoint = Endpoint()
    environment = {
        **SMALL,
        "OPENAI_API_KEY": "none",
        "VIKINGD_EMBEDDING__OPENAI_BASE_URL": endpoint.url,
        "VIKINGD_EMBEDDING__DIMENSION": str(worlds.DIMENSION),
        "NO_PROXY": "127.0.0.1",
    }
    try:
        for life in range(6):
            if time.monotonic() > run.until:
                break
            environment["VIKINGD_EMBEDDING__OPENAI_MODEL"] = f"model-{life % 2}"
            for again in range(dice.randrange(3)):
                daemon = Daemon(
                    run.nursery, store, "--provider", "openai", "--reembed", **environment
                )
                time.sleep(dice.expovariate(1 / 0.4))
                if again and daemon.code is None and daemon.is_serving():
                    with suppress(ClientError), daemon.client() as client:
                        client.reembed()
                    time.sleep(dice.expovariate(1 / 0.1))
                _kill(run, daemon)
            daemon = Daemon(run.nursery, store, "--provider", "openai", "--reembed", **environment)
            run.count(KIND, "starts")
            with daemon.client() as client:
                model.check(client, writers, dice)
                load = model.Load(writers, daemon.client)
                time.sleep(dice.expovariate(1 / 0.3))
                _kill(run, daemon)
                load.end()
    except ClientError as error:
        raise Wrong(str(error)) from error
    finally:
        endpoint.close()
