"""Signatures and places of definitions in constructs that are rare but real."""

from __future__ import annotations

import pytest

from vikingd.ingest.code.outline import read_outline

CPP = """class Outer {
 public:
  struct Cell {
    int x;
    void move() {}
  };
  enum Kind { A, B };
  class Later;
  struct Node* next;
  union { int a; float b; } plain;
  int count = 3;
};
struct config { int a; } default_config;
extern struct config list[];
int uses(struct config *p);
"""
KOTLIN = """package a

interface Inspector { fun inspect(x: Int): Boolean }

suspend inline fun <reified T> List<T>.deliver(crossinline block: suspend (T) -> Unit) {}
class Road(val km: Int) : } Route {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{

class Last { fun end() = 1 }
"""
VUE = """<script>
export default {
  data() { return { count: 0 }; },
  methods: { add() { this.count += 1; } },
};
</script>
"""


def _rows(content: str, name: str) -> list[tuple[str, int, int]]:
    return [
        (one.heading, one.first_line, one.last_line) for one in read_outline(content, name) or ()
    ]


def test_types_in_classes_and_before_names_are_definitions() -> None:
    """References to a type, types without a name, and fields are none."""
    wanted = [
        *(("Outer", 1, 12), ("Outer > Cell", 3, 6), ("Outer > Cell > move", 5, 5)),
        *(("Outer > Kind", 7, 7), ("config", 13, 13)),
    ]
    assert _rows(CPP, "a.cpp") == wanted
    plain = "struct a { int x; } b;\nstruct a *next;\nint f(struct a *p);\nenum e { X } g;\n"
    assert _rows(plain, "a.c") == [("a", 1, 1), ("e", 4, 4)]


def test_a_body_in_one_line_is_read_beside_faulty_blocks() -> None:
    """A block of which only the end of a line is missing is no faulty one; others are."""
    names = [row[0] for row in _rows(KOTLIN, "a.kt")]
    assert names[:2] == ["Inspector", "Inspector > inspect"]
    assert names[-2:] == ["Last", "Last > end"]
    assert "Road" not in names


def test_a_function_among_the_options_is_listed_once() -> None:
    """A function of the exported object is a definition and an option."""
    found = [row[0] for row in _rows(VUE, "a.vue")]
    assert found == ["script", "script > data", "script > methods > add"]


def test_a_guard_of_a_header_defines_nothing() -> None:
    """Other macros do, with a value or without, in a condition of their name or of another."""
    guard = "#ifndef A_H\n#define A_H\nint a;\n#endif\n"
    others = "#ifndef B\n#define B 1\n#endif\n#ifndef C\n#define D\n#endif\n#define E\n"
    assert [row[0] for row in _rows(guard + others, "a.c")] == ["B", "D", "E"]


def test_a_typedef_has_both_names() -> None:
    """A tag without a body is a reference, and an equal one is the same name."""
    text = "typedef struct a b;\ntypedef struct c { int x; } c;\ntypedef struct d { int y; } *e;\n"
    assert [row[0] for row in _rows(text, "a.c")] == ["b", "c", "d", "e"]


def test_methods_in_blocks_of_ruby_are_definitions() -> None:
    """A block without methods stays whole."""
    text = "module A\n  class_methods do\n    def find(id)\n      id\n    end\n  end\n\n"
    text += "  included do\n    has_many :items\n  end\nend\n"
    assert _rows(text, "a.rb") == [("A", 1, 11), ("A > find", 3, 5)]


@pytest.mark.parametrize(
    ("name", "content", "signature"),
    [
        ("a.js", "const a = async function* ({ x }) {};", "async function* a({ x })"),
        ("a.js", "const b = function (y) {};", "function b(y)"),
        ("a.js", "const c = async (z) => {};", "async c(z)"),
        ("a.js", "const d = (z) => {};", "d(z)"),
        ("a.ts", "const d = <T,>(z: T) => {};", "d<T,>(z: T)"),
        ("a.js", "const e = class extends Z {};", "class e extends Z"),
        ("a.js", "const f = class {};", "class f"),
        ("a.js", "const g = function named(x) {};", "g = function named(x)"),
        ("a.js", "Cart.prototype.add = function (i) {};", "function add(i)"),
        ("a.js", "function plain(a) {}", "function plain(a)"),
        ("a.java", "class A {\n  public A(int x) { }\n}", "public A(int x)"),
        ("a.java", "record A(int x) {\n  A { }\n}", "A"),
        ("a.cs", "class A {\n  public A(int x) { }\n}", "public A(int x)"),
        ("a.c", "typedef struct a {\n  int x;\n} b;", "typedef struct a b"),
        ("a.c", "typedef struct a b;", "typedef struct a b"),
        ("a.php", "<?php class A {\n  #[B]\n  abstract function c();\n}", "abstract function c()"),
        ("a.kt", "class A {\n  constructor(x: Int) { }\n}", "constructor(x: Int)"),
        ("a.swift", "struct A {\n  init(x: Int) { }\n}", "init(x: Int)"),
    ],
)
def test_a_signature_has_the_name_at_its_place(name: str, content: str, signature: str) -> None:
    """A constructor keeps its own signature, and a function without a name gets one."""
    found = read_outline(content, name)
    assert found
    assert found[-1].signature.replace("({x})", "({ x })") == signature
