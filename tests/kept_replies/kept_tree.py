"""The contexts of a kept set: the demo tree, files in eight languages, memories, large files."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

Fields = dict[str, Any]

DEMO = Path(__file__).parents[2] / "vikingd" / "demo_tree"
DIMENSION = 16
LIBRARY = "viking://resources/library"
LARGE = "viking://resources/large"
NOTES = "viking://user/memories/notes.md"
TIME = "2025-10-20T09:00:00Z"

WORDS = {
    "en": "harbour status codes retry queue memory cache deploy tea oolong index E4102 rollback",
    "de": "Hafen Zustand Fehlercode Warteschlange Speicher Ausgabe Tee Rücknahme Straße größer",
    "fr": "port état erreur file mémoire déploiement thé café vérifier élève où",
    "zh": "状态 代码 缓存 部署 回滚 港口 记忆 队列 错误 备份 茶",
    "ja": "状態 コード キャッシュ デプロイ 港 記憶 キュー お茶 バックアップ",
    "ko": "상태 코드 캐시 배포 항구 기억 대기열 차",
    "ru": "гавань состояние код ошибка очередь память чай откат",
    "ar": "ميناء حالة رمز خطأ ذاكرة شاي",
}


def vector(text: str) -> str:
    """Return a vector of a text that shares numbers with texts of the same words, in base64."""
    numbers = [0.0] * DIMENSION
    for word in text.lower().split():
        digest = blake2b(word.encode(), digest_size=DIMENSION).digest()
        numbers = [a + byte / 128 - 1 for a, byte in zip(numbers, digest, strict=True)]
    return base64.b64encode(array("f", numbers or [1.0]).tobytes()).decode()


def sentence(random: Random, language: str, words: int = 9) -> str:
    """Return a sentence of some words."""
    chosen = random.choices(WORDS[language].split(), k=words)
    return " ".join(chosen).capitalize() + ("。" if language in ("zh", "ja") else ".")


def tree(*, makes_vectors: bool) -> Iterator[tuple[str, Fields]]:
    """Yield the RPCs and fields that write the tree, with vectors unless the daemon makes them."""
    for batch in (_demo(), _library(), _memories(), _large(1 if makes_vectors else 4)):
        for context in batch:
            if not makes_vectors and context["uri"].startswith(LIBRARY):
                _add_vectors(context)
            context.setdefault("time", TIME)
        yield "Put", {"contexts": batch, "waitForVectors": makes_vectors}
    for i in range(5):
        ends = {"uri": f"{LIBRARY}/de/{i % 4}.md", "otherUri": f"{LIBRARY}/zh/{i % 3}.md"}
        yield "Link", {**ends, "reason": f"reason {i}" if i % 2 else ""}
    yield "Link", {"uri": f"{LIBRARY}/en/0.md", "otherUri": NOTES}


def _demo() -> list[Fields]:
    files = sorted(path for path in DEMO.rglob("*") if path.is_file())
    return [
        {
            "uri": f"viking://{path.relative_to(DEMO).as_posix()}",
            "content": path.read_text(encoding="utf-8"),
            "metadata": {"kind": path.suffix, "depth": len(path.relative_to(DEMO).parts)},
        }
        for path in files
    ]


def _library() -> list[Fields]:
    random = Random(44)
    made: list[Fields] = [
        {"uri": LIBRARY, "isDirectory": True, "abstract": "Texts in eight languages."},
        {"uri": f"{LIBRARY}/empty", "isDirectory": True, "abstract": "Nothing is here yet."},
    ]
    for number, language in enumerate(WORDS):
        top = f"{LIBRARY}/{language}"
        about = sentence(random, language)
        made.append({"uri": top, "isDirectory": True, "abstract": about, "title": language})
        for i in range(6):
            parts = [f"# {sentence(random, language, 3)}"]
            for _ in range(1 + i % 3):
                text = " ".join(sentence(random, language) for _ in range(3))
                parts += [f"## {sentence(random, language, 2)}", text]
            made.append(
                {
                    "uri": f"{top}/{'deep/' if i > 3 else ''}{i}.md",
                    "content": "\n\n".join(parts) + "\n",
                    "title": sentence(random, language, 2) if i % 2 else "",
                    "overview": sentence(random, language, 20) if i % 3 == 0 else "",
                    "metadata": {
                        "lang": language,
                        "year": 2018 + i,
                        "draft": i % 2 == 0,
                        "tags": [language, f"t{i}"],
                        "nested": {"of": {"depth": number}},
                    },
                    "time": f"2025-0{1 + i}-10T12:00:00Z",
                }
            )
    made.append({"uri": f"{LIBRARY}/same-1.md", "content": "Said twice: retry the queue.\n"})
    made.append({"uri": f"{LIBRARY}/same-2.md", "content": "Said twice: retry the queue.\n"})
    made.append(
        {"uri": f"{LIBRARY}/[odd] name%20.md", "content": "[2] Odd name.\n\nÜmlaut e\u0301\n"}
    )
    made.append({"uri": f"{LIBRARY}/code.py", "content": "def retry(queue):\n    return queue\n"})
    return made


def _memories() -> list[Fields]:
    files = {
        NOTES: "# Drinks\n\n- Likes oolong tea.\n- Drinks no tea.\n\n# Earlier\n\n- Liked cola.\n",
        "viking://user/memories/preferences.md": "- Prefers short answers.\n- Prefers trains.\n",
        "viking://user/memories/instructions.md": "- Always cite the source.\n",
        "viking://user/memories/entities.md": "- Bo is a pilot from Lyon.\n- 小李 works on 缓存.\n",
        "viking://user/memories/journal/2025-10-19.md": "- Took the ferry to the harbour.\n",
        "viking://user/memories/journal/2025-10-20.md": "- Fixed E4102 in the queue.\n- Had tea.\n",
        "viking://agent/memories/decisions.md": "- Cache for five minutes.\n",
        "viking://agent/memories/patterns.md": "- Ask before a rollback.\n",
        "viking://projects/lantern/memories/TASKS.md": "- [ ] Ship the beta.\n- [x] Write docs.\n",
        "viking://users/ana/memories/preferences.md": "- Ana prefers green tea.\n",
        "viking://users/ana/resources/plan.md": "Ana's plan of the harbour.\n",
        "viking://agent/skills/brew/SKILL.md": "---\nname: brew\n---\n\nBrew tea at 90 degrees.\n",
    }
    return [{"uri": uri, "content": content} for uri, content in files.items()]


def _large(number: int) -> list[Fields]:
    random = Random(45)
    made: list[Fields] = []
    for i in range(number):
        lines = [sentence(random, "en" if i % 2 else "de", 14) for _ in range(900)]
        parts = [f"## Part {n}\n\n" + " ".join(lines[n : n + 30]) for n in range(0, 900, 30)]
        made.append({"uri": f"{LARGE}/{i}.md", "content": "\n\n".join(parts) + "\n"})
    for i in range(35 * number):
        text = sentence(random, "en", 40)
        made.append({"uri": f"{LARGE}/many/{i:03}.md", "content": text, "abstract": text})
    return made


def _add_vectors(context: Fields) -> None:
    """Add vectors: one for the abstract of a directory, and for the paragraphs of a file."""
    if context.get("isDirectory"):
        context["vector"] = vector(context["abstract"])
        return
    passages, start = [], 0
    for paragraph in context["content"].split("\n\n"):
        end = start + len(paragraph)
        if paragraph.strip():
            passages.append({"start": start, "end": end, "vector": vector(paragraph)})
        start = end + 2
    context["passages"] = passages
    context["vector"] = vector(context["content"])
