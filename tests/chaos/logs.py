"""Damage of the logs of store and keys, which alone have the newest acknowledged writes."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import BinaryIO

from tests.chaos import damage, silent
from tests.chaos.common import Run
from tests.chaos.vaults import Vault

KIND = "logs"
LOGS = ("store.sqlite3-wal", "access.sqlite3-wal")
_HEADER = 32  # bytes of a log's header
_FRAME = 24  # bytes of a frame's header


def run(run: Run) -> None:
    """Damage logs until the time is over."""
    silent.run_rounds(run, KIND, harm)


def harm(vault: Vault, store: Path, dice: random.Random) -> str:
    """Damage one log, or both."""
    del vault
    present = [name for name in LOGS if (store / name).exists() and (store / name).stat().st_size]
    if not present:
        return "no log"
    names = present if dice.random() < 0.1 else [dice.choice(present)]
    return "; ".join(f"{name} {_harm_one(store / name, dice)}" for name in names)


def _harm_one(path: Path, dice: random.Random) -> str:
    size = 4096 + _FRAME
    frames = (path.stat().st_size - _HEADER) // size
    act = dice.choice(
        ("flip", "flip", "flip", "burst", "zero", "truncate", "cut", "swap", "salt", "delete")
    )
    frame = dice.randrange(frames) if frames else 0
    at = _HEADER + frame * size
    with path.open("r+b") as file:
        match act:
            case "flip":
                inside = dice.choice((dice.randrange(_FRAME), dice.randrange(size)))
                _flip(file, at + inside, dice)
                return f"flipped in frame {frame} of {frames}, byte {inside}"
            case "burst":
                length = dice.choice((2, 64, 512, 4096, 3 * size))
                file.seek(at + dice.randrange(size))
                file.write(dice.randbytes(length))
                file.truncate(_HEADER + frames * size)
                return f"burst of {length} in frame {frame} of {frames}"
            case "zero":
                file.seek(at)
                file.write(bytes(size))
                return f"zeroed frame {frame} of {frames}"
            case "truncate":
                file.truncate(at)
                return f"truncated to {frame} of {frames} frames"
            case "cut":
                file.truncate(at + dice.randrange(size))
                return f"torn in frame {frame} of {frames}"
            case "swap":
                other = _HEADER + dice.randrange(max(1, frames)) * size
                _swap(file, at, other, size)
                return f"swapped frame {frame} with {(other - _HEADER) // size} of {frames}"
            case "salt":
                _flip(file, dice.randrange(_HEADER), dice)
                return "flipped in the header"
            case _:
                damage.delete(path, dice)
                return "deleted"


def _flip(file: BinaryIO, at: int, dice: random.Random) -> None:
    file.seek(at)
    (value,) = struct.unpack("B", file.read(1))
    file.seek(at)
    file.write(struct.pack("B", value ^ 1 << dice.randrange(8)))


def _swap(file: BinaryIO, a: int, b: int, size: int) -> None:
    file.seek(a)
    first = file.read(size)
    file.seek(b)
    second = file.read(size)
    file.seek(b)
    file.write(first)
    file.seek(a)
    file.write(second)
