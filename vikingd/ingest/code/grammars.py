"""The grammars of programming languages, and the types of syntax nodes that define names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Parser

CLASS, FUNCTION, TYPE, VALUE, MODULE = "class", "function", "type", "value", "module"
"""The kinds of definitions."""


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """A grammar, and the types of its nodes that matter here.

    Attributes:
        package: the package of the grammar.
        function: the function of the package that returns the language.
        definitions: the kind of definition by the type of each node that defines a name.
        wrappers: nodes around a definition, such as decorators and `export`.
        bodies: nodes that hold the members of a definition, or whose children are statements.
        outer: nodes whose children are at the level of their parent, such as `#ifdef`.
        comments: comments and attributes, which belong to the definition after them.
        values: nodes at the top level that define constants, each with the field or child type that
            holds the names.
    """

    package: str
    definitions: Mapping[str, str]
    function: str = "language"
    wrappers: frozenset[str] = frozenset()
    bodies: frozenset[str] = frozenset({"block"})
    outer: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    values: Mapping[str, str] = field(default_factory=dict)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _kinds(**names: str) -> dict[str, str]:
    return {node: kind for kind, nodes in names.items() for node in nodes.split()}


_PYTHON = Grammar(
    "tree_sitter_python",
    {
        "function_definition": FUNCTION,
        "class_definition": CLASS,
        "type_alias_statement": TYPE,
    },
    wrappers=_names("decorated_definition"),
    outer=_names("if_statement try_statement else_clause except_clause finally_clause"),
    values={"expression_statement": "left"},
)
_JAVASCRIPT_KINDS = {
    **_kinds(
        function="function_declaration generator_function_declaration method_definition "
        "field_definition",
    ),
    "class_declaration": CLASS,
    "class": CLASS,  # export default class { }
}
_JAVASCRIPT = Grammar(
    "tree_sitter_javascript",
    _JAVASCRIPT_KINDS,
    wrappers=_names("export_statement"),
    bodies=_names("statement_block class_body object"),
    comments=_names("comment decorator hash_bang_line"),
    values={
        "lexical_declaration": "name",
        "variable_declaration": "name",
        "expression_statement": "left",
    },
)
_TYPESCRIPT_KINDS = {
    **{kind: name for kind, name in _JAVASCRIPT_KINDS.items() if kind != "field_definition"},
    **_kinds(
        function="function_signature public_field_definition method_signature "
        "abstract_method_signature",
        type="interface_declaration type_alias_declaration enum_declaration",
        module="internal_module module",
    ),
    "abstract_class_declaration": CLASS,
}
_TYPESCRIPT = Grammar(
    "tree_sitter_typescript",
    _TYPESCRIPT_KINDS,
    function="language_typescript",
    wrappers=_names("export_statement ambient_declaration expression_statement"),
    bodies=_names("statement_block class_body object"),
    comments=_names("comment decorator hash_bang_line"),
    values=_JAVASCRIPT.values,
)
_TSX = Grammar(
    "tree_sitter_typescript",
    _TYPESCRIPT_KINDS,
    function="language_tsx",
    wrappers=_TYPESCRIPT.wrappers,
    bodies=_TYPESCRIPT.bodies,
    comments=_TYPESCRIPT.comments,
    values=_JAVASCRIPT.values,
)
_GO = Grammar(
    "tree_sitter_go",
    _kinds(function="function_declaration method_declaration", type="type_spec type_alias"),
    wrappers=_names("type_declaration"),
    values={"const_declaration": "name", "var_declaration": "name"},
)
_RUST = Grammar(
    "tree_sitter_rust",
    {
        **_kinds(
            function="function_item function_signature_item macro_definition",
            type="struct_item enum_item union_item trait_item type_item associated_type",
            value="const_item static_item",
        ),
        "mod_item": MODULE,
        "impl_item": CLASS,
    },
    bodies=_names("block declaration_list"),
    outer=_names("foreign_mod_item"),
    comments=_names("line_comment block_comment attribute_item inner_attribute_item"),
)
_JAVA = Grammar(
    "tree_sitter_java",
    {
        **_kinds(
            function="method_declaration constructor_declaration compact_constructor_declaration",
            type="interface_declaration enum_declaration annotation_type_declaration",
        ),
        "class_declaration": CLASS,
        "record_declaration": CLASS,
    },
    bodies=_names(
        "block class_body interface_body enum_body constructor_body annotation_type_body"
    ),
    outer=_names("enum_body_declarations"),
    comments=_names("line_comment block_comment"),
)
_KOTLIN = Grammar(
    "tree_sitter_kotlin",
    {
        **_kinds(
            **{"class": "class_declaration object_declaration companion_object"},
            function="function_declaration secondary_constructor",
        ),
        "type_alias": TYPE,
    },
    bodies=_names("class_body enum_class_body function_body block"),
    comments=_names("line_comment block_comment"),
    values={"property_declaration": "variable_declaration"},
)
_C_KINDS = _kinds(
    function="function_definition preproc_function_def",
    type="struct_specifier union_specifier enum_specifier type_definition",
    value="preproc_def",
)
_C_OUTER = _names(
    "preproc_if preproc_ifdef preproc_else preproc_elif linkage_specification declaration_list"
)
_C_WRAPPERS = _names("field_declaration declaration")  # struct a { } in a class, or before a name
_C = Grammar(
    "tree_sitter_c",
    _C_KINDS,
    wrappers=_C_WRAPPERS,
    bodies=_names("compound_statement field_declaration_list"),
    outer=_C_OUTER,
)
_CPP = Grammar(
    "tree_sitter_cpp",
    _C_KINDS
    | {
        "class_specifier": CLASS,
        "namespace_definition": MODULE,
        "alias_declaration": TYPE,
        "concept_definition": TYPE,
    },
    wrappers=_C_WRAPPERS | {"template_declaration"},
    bodies=_names("compound_statement field_declaration_list declaration_list"),
    outer=_C_OUTER - {"declaration_list"},
)
_C_SHARP = Grammar(
    "tree_sitter_c_sharp",
    {
        **_kinds(
            **{"class": "class_declaration record_declaration struct_declaration"},
            function="method_declaration constructor_declaration local_function_statement",
            type="interface_declaration enum_declaration delegate_declaration",
            value="property_declaration",
        ),
        "namespace_declaration": MODULE,
    },
    bodies=_names("block declaration_list enum_member_declaration_list accessor_list"),
    outer=_names("preproc_if preproc_region file_scoped_namespace_declaration"),
)
_RUBY = Grammar(
    "tree_sitter_ruby",
    {"class": CLASS, "module": MODULE, "method": FUNCTION, "singleton_method": FUNCTION},
    wrappers=_names("call argument_list"),  # private def a
    bodies=_names("body_statement"),
    outer=_names("singleton_class do_block"),  # class_methods do
    values={"assignment": "left"},
)
_PHP = Grammar(
    "tree_sitter_php",
    {
        **_kinds(
            **{"class": "class_declaration trait_declaration"},
            function="function_definition method_declaration",
            type="interface_declaration enum_declaration",
        ),
    },
    function="language_php",
    bodies=_names("compound_statement declaration_list enum_declaration_list"),
    outer=_names("namespace_definition if_statement else_clause"),
    comments=_names("comment attribute_list"),
)
_SWIFT = Grammar(
    "tree_sitter_swift",
    {
        **_kinds(
            function="function_declaration init_declaration protocol_function_declaration "
            "deinit_declaration",
            type="protocol_declaration typealias_declaration",
        ),
        "class_declaration": CLASS,
    },
    bodies=_names("class_body enum_class_body protocol_body function_body statements"),
    comments=_names("comment multiline_comment"),
    values={"property_declaration": "name"},
)
_SCALA = Grammar(
    "tree_sitter_scala",
    {
        **_kinds(
            **{"class": "class_definition object_definition trait_definition"},
            function="function_definition function_declaration",
            type="enum_definition type_definition",
            value="given_definition",
        ),
    },
    bodies=_names("template_body block enum_body"),
    outer=_names("package_clause extension_definition"),
    comments=_names("comment block_comment"),
    values={"val_definition": "pattern"},
)
_BASH = Grammar(
    "tree_sitter_bash",
    {"function_definition": FUNCTION},
    bodies=_names("compound_statement"),
    outer=_names("if_statement"),
)
_SQL = Grammar(
    "tree_sitter_sql",
    _kinds(
        type="create_table create_view create_materialized_view create_type create_index "
        "create_trigger create_schema create_sequence",
        function="create_function create_procedure",
    ),
    wrappers=_names("statement"),
    outer=_names("transaction block"),
    comments=_names("comment marginalia"),
)

_GRAMMARS = {
    ".py .pyi": _PYTHON,
    ".js .jsx .mjs .cjs": _JAVASCRIPT,
    ".ts .mts .cts": _TYPESCRIPT,
    ".tsx": _TSX,
    ".go": _GO,
    ".rs": _RUST,
    ".java": _JAVA,
    ".kt .kts": _KOTLIN,
    ".c": _C,
    ".h .cc .cpp .cxx .hh .hpp .hxx .ipp .cu .cuh": _CPP,
    ".cs": _C_SHARP,
    ".rb .rake .gemspec": _RUBY,
    ".php": _PHP,
    ".swift": _SWIFT,
    ".scala .sc": _SCALA,
    ".sh .bash": _BASH,
    ".sql": _SQL,
}
_BY_ENDING = {end: grammar for ends, grammar in _GRAMMARS.items() for end in ends.split()}


def grammar_of(ending: str) -> Grammar | None:
    """Return the grammar for files with a suffix in lower case, such as ".py"; None without one."""
    return _BY_ENDING.get(ending)


@cache
def language_is_there(grammar_package: str) -> bool:
    """Return True if a grammar is installed."""
    try:
        import_module("tree_sitter")
        import_module(grammar_package)
    except ImportError:
        return False
    return True


def parser_of(grammar: Grammar) -> Parser:
    """Return a new parser, for one thread at a time."""
    from tree_sitter import Parser

    return Parser(_language(grammar.package, grammar.function))


@cache
def _language(package: str, function: str) -> Language:
    from tree_sitter import Language

    return Language(getattr(import_module(package), function)())
