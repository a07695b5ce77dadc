"""Names, suffixes and directories by which the kind of a file is known.

Sources: the lists of vendored, generated and documenting paths of GitHub's linguist; the naming
rules of pytest, Jest, Vitest, Cypress, `go test`, Cargo, Surefire, ScalaTest, NUnit, RSpec,
Minitest, PHPUnit, XCTest, GoogleTest and Catch2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _suffixes(text: str) -> frozenset[str]:
    return frozenset(f".{one}" for one in text.split())


def _name(*patterns: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole name matches a pattern; case counts."""
    regex = re.compile("|".join(f"(?:{one})" for one in patterns), re.DOTALL)
    return lambda name: regex.fullmatch(name) is not None


_JS = r"(?:[cm]?[jt]sx?|vue|svelte|coffee)"

DESCRIBING: Final = (
    *("README.md", "readme.md", "index.md", "SKILL.md"),
    *("README.rst", "README.adoc", "index.rst", "index.adoc"),
)
"""The files that describe their directory, the first one that exists."""

CODE: Final = _suffixes(
    "py pyi pyx pxd pyw ipynb js jsx mjs cjs ts tsx mts cts coffee vue svelte astro go rs java kt "
    "kts scala sc groovy c h cc cpp cxx c++ hh hpp hxx inl ipp m mm cs fs fsi fsx vb rb erb rake "
    "php phtml phpt swift dart zig nim v d ex exs eex heex erl hrl hs lhs ml mli elm clj cljs cljc "
    "edn lisp el scm rkt lua pl pm t r jl sh bash zsh fish ksh ps1 psm1 bat cmd awk bats sql "
    "graphql gql proto thrift capnp fbs avsc css scss sass less styl tf nix sol vy move cu cuh cl "
    "glsl vert frag hlsl wgsl metal asm s f f90 f95 f03 for cob cbl pas pp ada adb ads vhd vhdl sv "
    "svh tcl j2 jinja jinja2 liquid njk hbs handlebars mustache ejs pug jade haml slim twig tmpl "
    "gotmpl tpl cshtml razor aspx jsp ftl vm re res ql bzl star y l yy ll g4 lark pest wat hx gd "
    "feature robot tla dfy lean agda idr purs robot raku cr odin ino vala wl qml ui templ"
)
CONFIGURATION: Final = _suffixes(
    "toml yaml yml ini cfg conf config cnf properties env envrc json5 jsonc editorconfig plist "
    "xcconfig entitlements csproj fsproj vbproj vcxproj sln slnx props targets gradle cmake mk mak "
    "tfvars hcl service socket timer desktop nginx gemspec podspec cabal gyp gypi gn gni pro pri "
    "bazel buck nuspec ruleset runsettings code-workspace iml dockerfile reg nsi iss spec ron "
    "dhall cue jsonnet libsonnet rockspec opam sbt"
)
DATA: Final = _suffixes(
    "csv tsv psv parquet json jsonl ndjson geojson topojson jsonld xlsx xls ods sqlite sqlite3 db "
    "npy npz avro arrow feather orc pickle pkl xml xsl xsd wsdl dtd svg dump log out har ics vcf "
    "diff patch po pot strings stringsdict xlf xliff resx arb ftl snap golden lst dat bib fasta "
    "gpx kml rdf ttl owl nt pem crt key pub png jpg jpeg gif webp avif bmp tif tiff ico icns mp3 "
    "mp4 m4a mov webm wav ogg flac woff woff2 eot otf zip gz tgz bz2 xz 7z tar jar whl"
)
PROSE: Final = _suffixes(
    "md markdown mdx mdown mkd mdc rmd qmd rst rest adoc asciidoc asc txt text org textile wiki "
    "mediawiki creole pod rdoc tex latex typ texi texinfo man mdoc 1 2 3 4 5 6 7 8 roff"
)
TYPESET: Final = _suffixes("tex latex typ typi texi roff man textile wiki mediawiki")
"""The suffixes of prose files that count as templates in a directory of templates."""

DOCUMENT: Final = _suffixes(
    "pdf html htm xhtml docx doc pptx ppt epub odt odp rtf eml mbox pages key srt vtt"
)

VENDORED_DIRECTORIES: Final = _words(
    "vendor vendors vendored _vendor _vendored node_modules bower_components jspm_packages "
    "third_party third-party thirdparty 3rdparty 3rd_party 3rd-party godeps pods carthage "
    "site-packages dist-packages .venv .yarn .bundle elm-stuff packrat renv "
    "ckeditor tinymce tiny_mce mathjax ace-builds fontawesome font-awesome"
)
VENDORED_NEAR_THE_TOP: Final = _words("deps extern external externals externallibs venv")
VENDORED_NAME: Final = _name(
    r"jquery(?:[-.][\w.-]*)?\.js",
    r"(?:bootstrap|foundation|modernizr|html5shiv|respond|normalize|animate|raphael|prototype"
    r"|fontawesome|font-awesome)(?:[-.](?:\d[\w.-]*|custom|all|bundle|min))*\.(?:js|css)",
    r"normalize\.(?:css|scss)",
    r"d3(?:\.v\d+)?(?:\.min)?\.js",
    r"(?:swagger-ui|three|react|angular|vue|lodash|underscore|moment|ember|backbone|htmx|alpine"
    r"|mermaid|highlight|chart|lunr|require)[\w.-]*\.min\.(?:js|css)",
    r"gradlew(?:\.bat)?|mvnw(?:\.cmd)?|cpplint\.py|ltmain\.sh|config\.(?:guess|sub)|aclocal\.m4"
    r"|libtool\.m4|lt[\w~]*\.m4|install-sh|missing|depcomp|compile|mkinstalldirs|waf",
    r"catch(?:2)?\.hpp|doctest\.h|stb_\w+\.h|sqlite3\.[ch]|miniz\.[ch]",
)

SOURCE_DIRECTORIES: Final = _words("src source sources lib libs app apps pkg internal cmd crates")
"""Directories of source code, in which a name such as `vendor` or `docs` has no special meaning."""

GENERATED_DIRECTORIES: Final = _words(
    "__generated__ __snapshots__ __pycache__ .next .nuxt .svelte-kit .output .turbo .parcel-cache "
    "storybook-static htmlcov .nyc_output generated-sources generated-src egg-info .eggs "
    "deriveddata .dart_tool"
)
OUTPUT_DIRECTORIES: Final = _words("dist out target _build _site coverage")
GENERATED_NAME: Final = _name(
    # Lock files of package managers.
    r"package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.lock"
    r"|(?:[Cc]argo|poetry|uv|pdm|composer|Pipfile|Gemfile|Podfile|mix|flake|pubspec|Gopkg|glide"
    r"|packages|paket|pixi|conda|Package|Chart|Cartfile|gradle|buf|devbox|rebar|stack\.yaml"
    r"|project\.assets|\.terraform)\.(?:lock|resolved|lock\.hcl|lock\.json)"
    r"|go\.(?:work\.)?sum|MODULE\.bazel\.lock|cabal\.project\.freeze|conda-lock\.yml"
    r"|packages\.lock\.json|project\.assets\.json|\.pnp\.c?js|\.pnp\.loader\.mjs",
    # Minified files, bundles and source maps.
    r".+[.-]min\.(?:[cm]?js|css|html)|.+\.(?:[cm]?js|css|ts|dart)\.map|.+\.(?:bundle|chunk)\.js",
    # Protocol buffers, gRPC, Thrift, Cap'n Proto, FlatBuffers.
    r".+\.pb(?:\.\w+)?\.(?:go|cc|h|c|rb|php|swift|dart|ts|js|py|rs)|.+\.(?:pbjson|pbenum|pbserver)\.dart"
    r"|.+_pb2(?:_grpc)?\.pyi?|.+_(?:grpc_)?pb\.(?:[jt]s|d\.ts|rb)|.+_connect\.[jt]s|.+\.grpc\.swift"
    r"|.+_pb_service\.(?:js|d\.ts|ts)|.+_services_pb\.rb|.+Grpc\.java|.+OuterClass\.java"
    r"|.+\.capnp\.(?:h|c\+\+)|.+_generated\.(?:h|rs|go|py|ts)",
    # Other generators of code.
    r".+\.(?:g|g\.i|gen|gr|freezed|mocks|config|auto_mappr)\.dart",
    r".+\.(?:[Dd]esigner|g|g\.i|feature|generated)\.(?:cs|vb)|TemporaryGeneratedFile_.+\.cs",
    r".+[._-](?:gen|generated)\.(?:go|[cm]?[jt]sx?|d\.ts|rs|py|kt|swift|graphql|java|h|cc|cpp|sql|json|yaml)",
    r"zz_generated[._].+\.go|bindata\.go|wire_gen\.go|.+_easyjson\.go|.+\.sql\.go|.+_templ\.go",
    r"moc_.+\.cpp|qrc_.+\.cpp|ui_.+\.h|y\.tab\.[ch]|lex\.yy\.c|parser\.out|parsetab\.py",
    r".+\.(?:nib|xcworkspacedata|xcuserstate|pbxproj|snap|approved\.txt|received\.txt)",
    r"schema\.generated\.\w+|routeTree\.gen\.ts|next-env\.d\.ts|worker-configuration\.d\.ts"
    r"|auto-imports\.d\.ts|PKG-INFO|SOURCES\.txt|all_contributors\.json",
)

LICENCE_DIRECTORIES: Final = _words("licenses licences license licence")
LICENCE_NAME: Final = _name(
    r"(?:[\w.+-]+[-_.])?(?:LICEN[CS]ES?|Licen[cs]es?|licen[cs]es?)(?:[-_][\w.+-]+)?"
    r"(?:\.(?:[\w+-]+\.)?(?:txt|md|markdown|rst|html|adoc|rtf|pdf|mit|MIT|apache|bsd|gpl))?",
    r"(?:LICEN[CS]E|UN-?LICEN[CS]E)\.[\w.-]+",
    r"COPYING(?:[-_.][\w.+-]*)?|COPYRIGHT(?:\.(?:txt|md|rst))?|(?:[Cc]opying|copyright)(?:\.txt)?"
    r"|COPYING3?|UNLICEN[CS]E|[Uu]nlicen[cs]e|PATENTS(?:\.(?:txt|md))?|EULA(?:\.(?:txt|md|rtf))?"
    r"|NOTICES?(?:[-_.][\w.-]*)?|notice(?:\.txt)?|OFL(?:\.txt)?",
    r"(?i:third-?_?party-?_?(?:notices?|licen[cs]es?)(?:\.(?:txt|md|html))?)",
)

DOCUMENTATION_DIRECTORIES: Final = _words("doc docs documentation javadoc groovydoc man wiki")
PAGE_DIRECTORIES: Final = DOCUMENTATION_DIRECTORIES | _words(
    "guide guides content contents pages posts _posts articles"
)
DOCUMENTATION_NAME: Final = _name(
    r"(?i:readme|changes|changelog|change-log|contributing|contributors|authors|maintainers"
    r"|history|news|releases?|release-?_?notes|install|installation|upgrading|upgrade|security"
    r"|code_of_conduct|code-of-conduct|support|governance|roadmap|todo|thanks|credits|acknowledge?ments"
    r"|hacking|faq|agents|claude|gemini|copilot-instructions|llms(?:-full)?|architecture|design)"
    r"(?:[-_.][A-Za-z]{2}(?:[-_][A-Za-z]{2,4})?)?(?:\.(?i:md|markdown|mdx|rst|txt|adoc|asciidoc|org|rdoc|pod|html|textile))?",
)

TEST_DIRECTORIES: Final = _words(
    "test tests __tests__ __test__ __mocks__ __fixtures__ testdata test_data test-data "
    "testing_data fixtures fixture e2e cypress t unittest unittests unit_tests testcases "
    "test-cases test_cases "
    "androidtest regress regression_tests"
)
TEST_DIRECTORY: Final = _name(
    r"(?:[\w.-]+[-_.])?[Tt]ests?(?:[-_.][\w.-]+)?",
    r"[\w.-]*[a-z0-9](?:UI)?Tests?",
)
TEST_NAME: Final = _name(
    # Python.
    r"(?:test_.*|.*_tests?|conftest|tests?)\.pyi?",
    # JavaScript and TypeScript.
    rf".+[._-](?:test|tests|spec|specs|e2e|e2e-spec|cy|test-d|spec-d|it)\.(?:\w+\.)?{_JS}",
    rf"tests?\.{_JS}|test[._-].+\.{_JS}",
    r"(?:jest|vitest|test)[._-]?setup\.[cm]?[jt]sx?|setupTests?\.[jt]sx?",
    # Go, Rust, Dart, Elixir, Erlang, Clojure, Lua, Zig.
    r".+_test\.(?:go|rs|dart|exs|clj[cs]?|lua|zig|d|nim|ml|v|gd)|(?:tests?|.+_tests)\.rs|test_.+\.(?:rs|jl|nim|exs)"
    r"|test_helper\.exs|.+_(?:SUITE|tests)\.erl|.+_spec\.lua|runtests\.jl",
    # Java, Kotlin, Scala, Groovy.
    r"(?:.*[a-z0-9_])?(?:Tests?|TestCase|TestSuite|TestBase|IT|ITCase)\.(?:java|kt|scala|groovy)",
    r"Test[A-Z0-9].*\.(?:java|kt|scala|groovy)|.*[a-z0-9](?:Spec|Suite|Specs)\.(?:scala|kt|groovy|hs)",
    # C#, F#, Visual Basic, PHP, Swift, Objective-C, Haskell.
    r".*[a-z0-9_](?:Tests?|Specs?|TestBase|TestFixture)\.(?:cs|fs|vb)|(?:.*[a-z0-9_])?(?:Test|TestCase|Cest)\.php"
    r"|.+\.phpt|.*[a-z0-9_](?:UI)?Tests?\.(?:swift|m|mm|hs)",
    # Ruby.
    r".+_(?:spec|test)\.rb|(?:test|spec|rails)_helper\.rb|test_.+\.rb",
    # C and C++.
    r"(?:.+[-_.])?(?:unit)?tests?\.(?:c|cc|cpp|cxx|c\+\+|cu|h|hpp)|test[-_].+\.(?:c|cc|cpp|cxx|cu|h|hpp)"
    r"|.*[a-z0-9](?:Tests?|UnitTest)\.(?:cc|cpp|cxx|h|hpp)",
    # Shell, Perl, R, SQL, Gherkin, Robot Framework.
    r".+\.(?:bats|t|feature|robot)|(?:test[-_].+|.+[-_]tests?)\.(?:sh|bash|zsh|fish|R|r|sql|ps1|el|lua|pl)"
    r"|.+\.[Tt]ests\.ps1|runtests?\.(?:sh|py)",
)

EXAMPLE_DIRECTORIES: Final = _words(
    "example examples _examples sample samples demo demos tutorial tutorials cookbook quickstart "
    "quickstarts playground playgrounds docs_src doc_src code_samples code-samples code-examples "
    "code_examples snippets example-apps example_apps sample-apps sample_apps starters"
)
EXAMPLE_NAME: Final = _name(
    r"(?:examples?|samples?)\.\w+",
    r"examples?[-_.].+",
    r".+\.(?:examples?|sample|stories)\.\w+(?:\.\w+)?",
)
NAMESPACES: Final = _words("com org net io edu dev")
"""Names above "example" in Java packages: com/example is no directory of examples."""

CONFIGURATION_DIRECTORIES: Final = _words(
    ".github .gitlab .circleci .vscode .idea .devcontainer .husky .changeset .config .cargo "
    ".buildkite .azure-pipelines .storybook .run .fleet .zed .ci config configs conf"
)
CONFIGURATION_NAME: Final = _name(
    r"(?:.+\.)?(?:Dockerfile|Containerfile)(?:[.-][\w.-]+)?|dockerfile"
    r"|docker-compose[\w.-]*\.ya?ml|compose\.ya?ml",
    r"(?:GNU)?[Mm]akefile(?:[._-][\w.-]+)?|CMakeLists\.txt|meson(?:_options)?\.(?:build|txt)"
    r"|SConstruct|SConscript|BUILD|WORKSPACE|BUCK|[Jj]ustfile|Taskfile\.ya?ml|Earthfile|Tiltfile"
    r"|Jenkinsfile|Vagrantfile|Procfile|Rakefile|Gemfile|Podfile|Cartfile|Brewfile|Fastfile|Appfile"
    r"|Guardfile|Capfile|Berksfile|Pipfile|Caddyfile|CODEOWNERS|OWNERS|Kconfig|Kbuild|Doxyfile(?:\.in)?",
    r"(?:[\w.-]*[-_])?(?:requirements|constraints)(?:[-_.][\w.-]+)?\.(?:txt|in)|MANIFEST\.in"
    r"|setup\.(?:py|cfg)|noxfile\.py|fabfile\.py|conf\.py|gunicorn(?:[._]conf)?\.py|dodo\.py|wscript"
    r"|py\.typed|runtime\.txt|robots\.txt|humans\.txt|ads\.txt|version\.txt|CNAME|VERSION",
    r"(?:package|bower|composer|deno|lerna|nx|turbo|angular|vercel|now|netlify|firebase|renovate"
    r"|biome|manifest|app|project|workspace|components|devcontainer|launch|tasks|settings|extensions"
    r"|nodemon|firebase|firestore\.indexes|global|nuget|host|local\.settings|launchSettings|vcpkg"
    r"|jsr|jest|karma|tslint|cypress|babel|rush|hardhat|dprint|api-extractor|cspell|typedoc|jsdoc"
    r"|nest-cli|ng-package|proxy\.conf|ionic\.config|capacitor\.config|greenkeeper|release-please-config"
    r"|CMakePresets|contentlayer|mint|docs|sidebars|book|metadata|plugin|tauri\.conf|wrangler|site)\.json[c5]?",
    r"(?:[\w.-]*)(?:tsconfig|jsconfig|appsettings)(?:[.-][\w.-]+)?\.json|[\w.-]+\.config\.json",
    r"[\w.-]+\.(?:config|conf)\.(?:[cm]?[jt]s|coffee)|(?:[Gg]runtfile|[Gg]ulpfile|Jakefile)\.(?:[cm]?[jt]s|coffee)"
    r"|webpack\.[\w.]+\.[cm]?[jt]s|karma[\w.-]*\.[jt]s",
    r"go\.(?:mod|work)|pom\.xml|build\.xml|ivy\.xml|settings\.xml|web\.xml|AndroidManifest\.xml"
    r"|[Nn]u[Gg]et\.[Cc]onfig|packages\.config|Directory\.Build\.\w+|log4j2?\.xml|logback(?:-\w+)?\.xml"
    r"|phpunit(?:\.xml)?(?:\.dist)?\.?(?:xml)?|phpcs\.xml(?:\.dist)?|psalm\.xml|checkstyle\.xml|build\.gradle\.kts"
    r"|settings\.gradle\.kts|Package\.swift|build\.sbt|mix\.exs|rebar\.config|project\.clj|deps\.edn"
    r"|shadow-cljs\.edn|dune(?:-project)?|build\.zig(?:\.zon)?|stack\.yaml|build\.rs|config\.ru|artisan",
    r"\.env(?:\..+)?|\.[\w-]+(?:rc|ignore|attributes|modules|lintrc|version|keep)(?:\.\w+)?|\.editorconfig|\.mailmap",
)
DATA_DIRECTORIES: Final = _words(
    "data dataset datasets locale locales i18n lang langs translations seeds cassettes"
)
TEMPLATE_DIRECTORIES: Final = _words(
    "templates template layouts layout _layouts _includes includes partials _partials views "
    "src app components webapp themes theme emails"
)

_DUMP_NAME = re.compile(r"(?:^|[/._-])(?:dump|backup|seeds?|data|inserts)(?:[/._-]|\.sql$)", re.I)
_DUMP_HEAD = re.compile(
    r"-- (?:MySQL|MariaDB|PostgreSQL database|SQLite|phpMyAdmin SQL) dump|PRAGMA foreign_keys=OFF",
    re.IGNORECASE,
)


def is_sql_dump(path: str, beginning: str) -> bool:
    """Return True if an SQL file has the rows of a database, and not a schema or queries."""
    return bool(_DUMP_NAME.search(path) or _DUMP_HEAD.search(beginning[:500]))
